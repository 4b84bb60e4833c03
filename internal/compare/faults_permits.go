package compare

import "slices"

// The faults of calls that take, count and give back permits.

// B1: a release raises the value and leaves the records.
func releaseLeavesRecords(d deviation) parts {
	if d.Op != Release || !d.usesPermits() || len(d.pair.records) == 0 {
		return 0
	}
	if !d.followsValue() || !slices.Equal(d.got.inForce().records, d.pair.records) {
		return 0
	}
	return inPermits // a key that is left has an end, too
}

// B2: there is a value but no record. What the value lacks never comes back.
func valueWithoutRecords(d deviation) parts {
	if !d.followsValue() || !d.valued || len(d.pair.records) > 0 || d.value >= d.rate {
		return 0
	}
	return inAnswer | inPermits
}

// B3: availablePermits adds what has expired, without a bound, and removes it.
func readingWrites(d deviation) parts {
	if d.Op != AvailablePermits || !d.followsValue() || !d.valued || sum(d.old) == 0 {
		return 0
	}
	if n, _ := d.got.inForce().number(); n > d.rate {
		return inAnswer | inPermits
	}
	return inPermits
}

// B6: availablePermits creates a value where none was. It does not end.
func readingCreates(d deviation) parts {
	if d.Op != AvailablePermits || !d.followsValue() || d.pair.value != "" {
		return 0
	}
	return inValue
}

// B9: the own pair of a client goes by the rate for which it was created.
func ownPairKeepsItsRate(d deviation) parts {
	if d.typ != 1 || !d.Java || !d.followsValue() || !d.valued || d.value+sum(d.pair.records) == d.rate {
		return 0
	}
	return inAnswer | inPermits
}

// B11: debt shows as permits below zero.
func debtShown(d deviation) parts {
	if d.Op != AvailablePermits || !d.followsValue() || d.left(false) >= 0 {
		return 0
	}
	return inAnswer
}

// B12: permits below one are taken.
func permitsBelowOne(d deviation) parts {
	switch {
	case d.Op != TryAcquire || d.Permits >= 1:
		return 0
	case d.refusesElse():
		return inAnswer
	case d.followsValue():
		return inAnswer | inPermits
	}
	return 0
}

// B12: expired records of zero permits stay, because nothing comes back.
func recordsOfNothing(d deviation) parts {
	if d.Op != TryAcquire || !d.followsValue() || len(d.old) == 0 || sum(d.old) != 0 {
		return 0
	}
	return inRecords | inEnds
}

// B13: a record keeps the permits modulo 2^32. Beyond 2^40 Go refuses them.
func permitsBeyondRecord(d deviation) parts {
	beyond := d.Permits > mostPermits
	switch {
	case d.Op != TryAcquire || d.Permits <= mostPerRecord:
		return 0
	case beyond && d.refusesElse():
		return inAnswer
	case !d.followsValue():
		return 0
	case beyond:
		return inAnswer | inPermits
	}
	return inRecords
}

// B19: without the value string all permits are granted again.
func recordsWithoutValue(d deviation) parts {
	if !d.followsValue() || d.pair.value != "" || len(d.pair.records) == 0 {
		return 0
	}
	return inAnswer | inPermits
}

// aftermath: after a fault, value and records do not add up to the rate.
func aftermath(d deviation) parts {
	if !d.tainted || !d.followsValue() || !d.valued || d.value+sum(d.pair.records) == d.rate {
		return 0
	}
	return inAnswer | inPermits
}
