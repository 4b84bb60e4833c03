package compat_test

import (
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// A dispute is a step of which Java makes something else than it should: got
// instead of want, out of the same world. That got is no more than Redisson's
// own scripts do has been checked already (redisson).
type dispute struct {
	step
	before    world // Java's
	now       int64
	want, got outcome
	tainted   bool // a fault has been at work on that world before

	// Of the world before.
	settings
	pair      holding // in force
	live, old []grant // its records that count, and that do not
	value     int64   // its value string
	valued    bool    // if it is one
}

func newDispute(s step, before world, now int64, want, got outcome, tainted bool) dispute {
	d := dispute{step: s, before: before, now: now, want: want, got: got, tainted: tainted}
	d.settings, d.pair = before.settings(), *before.force()
	d.live, d.old = d.pair.live(now, d.interval)
	d.value, d.valued = d.pair.number()
	return d
}

// left is what Redisson takes to be left: the value string, which is the rate
// where there is none, with what has expired, up to the rate if it is bound.
func (d dispute) left(bound bool) int64 {
	switch {
	case !d.valued:
		return d.rate
	case bound && sum(d.old) != 0 && double(d.value+sum(d.old)) > d.rate:
		return d.rate - sum(d.live)
	}
	return double(d.value + sum(d.old))
}

// goesByValue reports whether Java has done what follows from the value string
// alone, be that right or wrong. All that the faults can do to permits is that.
func (d dispute) goesByValue() bool {
	value, _ := d.got.force().number()
	switch left := d.left(d.op == tryAcquire); {
	case !d.usesPermits():
		return false
	case d.op == availablePermits:
		return d.got.result == decimal(left) && value == left
	case d.op == release && !d.valued:
		return value == d.rate
	case d.op == release:
		return value == min(d.rate, d.value+d.permits)
	case !d.takes():
		return d.got.err == exceedsRate
	case double(d.permits) <= double(left) || !d.valued:
		return d.got.result == "true" && value == left-d.permits
	case d.got.err == nilValue:
		return len(d.live) == 0 && value == left
	default:
		return d.got.result == "false" && value == left
	}
}

// usesPermits reports whether the step looks at value and records.
func (d dispute) usesPermits() bool {
	return d.whole && (d.op == tryAcquire || d.op == availablePermits || d.op == release && d.permits > 0)
}

// takes reports whether Redisson takes permits or says that it cannot.
func (d dispute) takes() bool {
	return d.op == tryAcquire && d.whole && double(d.permits) <= double(d.rate)
}

// keeps reports whether a rate is set with the permits that are taken.
func (d dispute) keeps() bool { return (d.op == setRate || d.op == updateRate) && d.keepState }

// A fault of Redisson (B1 to B24 of the README) says what of a dispute is its
// doing. It looks at the step, the world before it and what Java made of it.
type fault struct {
	name     string
	explains func(d dispute) aspect
}

// The faults that a sequence can meet. The others need a lost reply (B4),
// clocks that differ (B5), thousands of records (B16), waiting (B17, B18, B20,
// B21, B24), or a cluster (B23); they have specs of their own. aftermath is
// none of them: a fault may last.
var faults = []fault{
	{"B1", releaseLeavesRecords}, {"B2", valueWithoutRecords}, {"B3", readingWrites}, {"B6", readingCreates},
	{"B6", leftoversCount}, {"B7", keepAliveStays}, {"B7", refusalAddsKeepAlive}, {"B8", otherPairStays}, {"B8", keysStayBehind},
	{"B9", ownPairKeepsItsRate}, {"B10", leftoversExpire}, {"B11", debtForgotten}, {"B11", debtShown},
	{"B12", permitsBelowOne}, {"B12", recordsOfNothing}, {"B13", permitsBeyondRecord}, {"B14", rateBeyondDoubles}, {"B15", halfHash},
	{"B19", recordsWithoutValue}, {"B22", rateOfNothing}, {"no config", configOfNothing}, {"aftermath", aftermath},
}

// B1: a release raises the value and leaves the records.
func releaseLeavesRecords(d dispute) aspect {
	if d.op != release || !d.usesPermits() || len(d.pair.records) == 0 {
		return 0
	}
	if !d.goesByValue() || !slices.Equal(d.got.force().records, d.pair.records) {
		return 0
	}
	return inValue | inRecords | inEnds // a key that is left has an end, too
}

// B2: there is a value but no record, and what the value lacks never comes back.
func valueWithoutRecords(d dispute) aspect {
	if !d.goesByValue() || !d.valued || len(d.pair.records) > 0 || d.value >= d.rate {
		return 0
	}
	return inAnswer | inValue | inRecords | inEnds
}

// B3: availablePermits credits what has expired, without a bound, and removes it.
func readingWrites(d dispute) aspect {
	if d.op != availablePermits || !d.goesByValue() || !d.valued || sum(d.old) == 0 {
		return 0
	}
	a := inValue | inRecords | inEnds
	if n, _ := d.got.force().number(); n > d.rate {
		a |= inAnswer
	}
	return a
}

// B6: availablePermits leaves a value where none was, one that does not end.
func readingCreates(d dispute) aspect {
	if d.op != availablePermits || !d.goesByValue() || d.pair.value != "" {
		return 0
	}
	return inValue
}

// B6: what an earlier limiter has left behind counts for a new one.
func leftoversCount(d dispute) aspect {
	_, typed := d.before.hash["type"]
	if typed || !d.setsRate() || d.got.hash == nil {
		return 0
	}
	a := aspect(0)
	if d.keeps() { // a value is made where none has to be
		a = inValue | inEnds
	}
	if d.before.pairs[d.limit.Type].empty() {
		return a
	}
	return a | inValue | inRecords | inEnds
}

// B7: a keep alive, or any time to live, is not taken back by a rate without it.
func keepAliveStays(d dispute) aspect {
	if d.op != setRate && d.op != updateRate || d.limit.KeepAlive != 0 || d.before.ends == 0 || !near(d.got.ends, d.before.ends) {
		return 0
	}
	return inEnds
}

// B7: a trySetRate that answers false has added keepAliveTime.
func refusalAddsKeepAlive(d dispute) aspect {
	_, had := d.before.hash["keepAliveTime"]
	if d.op != trySetRate || !d.whole || had || d.got.hash["keepAliveTime"] != decimal(d.limit.KeepAlive.Milliseconds()) {
		return 0
	}
	return inFields
}

// B8: the pair of the other type stays behind.
func otherPairStays(d dispute) aspect {
	other := 1 - int(d.limit.Type)
	if !d.setsRate() || d.before.pairs[other].empty() || d.got.pairs[other].empty() {
		return 0
	}
	return inOther
}

// B9: the pair of a client's own goes by the rate that it was made for.
func ownPairKeepsItsRate(d dispute) aspect {
	if d.typ != 1 || !d.java || !d.goesByValue() || !d.valued || d.value+sum(d.pair.records) == d.rate {
		return 0
	}
	return inAnswer | inValue | inRecords | inEnds
}

// B10: without the hash there is no limiter, but to expire and clearExpire any
// of the five keys is one.
func leftoversExpire(d dispute) aspect {
	if d.op != expire && d.op != clearExpire || d.before.hash != nil || d.before.nothing() {
		return 0
	}
	return inAnswer | inEnds | inOther
}

// B11: a rate below what is taken forgets the rest.
func debtForgotten(d dispute) aspect {
	if !d.keeps() || d.typ != int(d.limit.Type) {
		return 0
	}
	live, _ := d.pair.live(d.now, d.limit.Interval.Milliseconds())
	if sum(live) <= d.limit.Rate || d.got.force().value != "0" {
		return 0
	}
	return inValue
}

// B11: debt shows as permits below zero.
func debtShown(d dispute) aspect {
	if d.op != availablePermits || !d.goesByValue() || d.left(false) >= 0 {
		return 0
	}
	return inAnswer
}

// B12: permits below one are taken.
func permitsBelowOne(d dispute) aspect {
	if d.op != tryAcquire || d.permits >= 1 {
		return 0
	}
	switch {
	case !d.whole && d.got.err == notInitialized || d.whole && !d.takes() && d.got.err == exceedsRate:
		return inAnswer // the other error; ours comes before Redis is asked
	case d.goesByValue():
		return inAnswer | inValue | inRecords | inEnds
	}
	return 0
}

// B12: records of zero permits do not go when they expire, as nothing comes back.
func recordsOfNothing(d dispute) aspect {
	if d.op != tryAcquire || !d.goesByValue() || len(d.old) == 0 || sum(d.old) != 0 {
		return 0
	}
	return inRecords | inEnds
}

// B13: a record keeps the permits modulo 2^32; beyond 2^40 Go refuses them.
func permitsBeyondRecord(d dispute) aspect {
	beyond := d.permits > 1<<40
	switch {
	case d.op != tryAcquire || d.permits < 1<<32:
		return 0
	case beyond && (!d.whole && d.got.err == notInitialized || d.whole && !d.takes() && d.got.err == exceedsRate):
		return inAnswer
	case !d.goesByValue():
		return 0
	case beyond:
		return inAnswer | inValue | inRecords | inEnds
	}
	return inRecords
}

// B14: rates that Lua cannot count.
func rateBeyondDoubles(d dispute) aspect {
	if !d.setsRate() || d.limit.Rate <= 1<<53 {
		return 0
	}
	return accepted(d)
}

// B22: a rate or an interval that is no limit.
func rateOfNothing(d dispute) aspect {
	switch {
	case d.op == availablePermits && d.goesByValue() && d.rate < 0:
		return inAnswer
	case d.interval <= 0 && d.goesByValue(): // Java writes records that count for nothing, Go none
		return inValue | inRecords | inEnds
	case d.setsRate() && (d.limit.Rate < 1 || d.limit.Interval < time.Millisecond):
		return accepted(d)
	}
	return 0
}

// accepted is all that may differ when Java does what Go refuses.
func accepted(d dispute) aspect {
	if d.want.err != badArgument || d.got.err == badArgument {
		return 0
	}
	return inAnswer | inFields | inEnds | inValue | inRecords | inOther
}

// B15: half a hash is completed, or taken for a whole one.
func halfHash(d dispute) aspect {
	if d.before.hash == nil || d.whole {
		return 0
	}
	switch d.op {
	case getConfig:
		return inAnswer
	case trySetRate, updateRate:
		return inAnswer | inFields | inEnds | inValue | inRecords | inOther
	}
	return 0
}

// B19: without the value string all permits are granted again.
func recordsWithoutValue(d dispute) aspect {
	if !d.goesByValue() || d.pair.value != "" || len(d.pair.records) == 0 {
		return 0
	}
	return inAnswer | inValue | inRecords | inEnds
}

// configOfNothing: getConfig answers where no rate is set.
func configOfNothing(d dispute) aspect {
	if d.op != getConfig || d.before.hash != nil || d.got.result != describe(rratelimiter.Config{}) {
		return 0
	}
	return inAnswer
}

// B8: what stays behind is still touched, and ends when it likes.
func keysStayBehind(d dispute) aspect {
	a := aspect(0)
	if !d.before.pairs[1-d.typ].empty() && (d.op == expire || d.op == clearExpire) {
		a |= inOther
	}
	if d.before.looseEnds() {
		a |= inEnds | inOther
		if d.op == clearExpire {
			a |= inAnswer
		}
	}
	return a
}

// aftermath: where a fault has been at work before, value and records do not
// make up the rate any more.
func aftermath(d dispute) aspect {
	if !d.tainted || !d.goesByValue() || !d.valued || d.value+sum(d.pair.records) == d.rate {
		return 0
	}
	return inAnswer | inValue | inRecords | inEnds
}

// looseEnds reports whether a key of either pair ends at another time than the hash.
func (w world) looseEnds() bool {
	return slices.ContainsFunc(w.pairs[:], func(h holding) bool {
		return h.value != "" && !near(h.valueEnds, w.ends) || len(h.records) > 0 && !near(h.recordsEnds, w.ends)
	})
}

// explain names the faults that a dispute is the doing of, and what is left
// that none of them explains.
func explain(d dispute, among []fault) (names []string, left aspect) {
	left = differ(outcome{d.want.answer, d.want.withoutOwnLife()}, outcome{d.got.answer, d.got.withoutOwnLife()})
	whole := left
	for _, f := range among {
		if in := f.explains(d) & whole; in != 0 {
			names = append(names, f.name)
			left &^= in
		}
	}
	return names, left
}
