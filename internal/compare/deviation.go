package compare

// A deviation is an observation of Java whose outcome differs from that of the
// exact model (want). The checker knows by then that the outcome is what the
// model of Redisson computes.
type deviation struct {
	observation
	want    outcome
	tainted bool // a fault changed this state before

	// Of the state before the step.
	settings
	pair      pair // in force
	live, old []record
	value     int64 // the value string
	valued    bool  // value is a number
}

func newDeviation(o observation, want outcome, tainted bool) deviation {
	d := deviation{observation: o, want: want, tainted: tainted}
	d.settings, d.pair = o.before.settings(), *o.before.inForce()
	d.live, d.old = d.pair.split(o.now, d.interval)
	d.value, d.valued = d.pair.number()
	return d
}

// left returns the permits that Redisson believes to be left: the value string
// and what has expired. Without a value string that is the rate. clamped: not
// more than the rate, as tryAcquire has it.
func (d deviation) left(clamped bool) int64 {
	switch {
	case !d.valued:
		return d.rate
	case clamped && sum(d.old) != 0 && double(d.value+sum(d.old)) > d.rate:
		return d.rate - sum(d.live)
	}
	return double(d.value + sum(d.old))
}

// followsValue reports whether Java did what follows from the value string
// alone, be that right or wrong. No fault does anything else to permits.
func (d deviation) followsValue() bool {
	value, _ := d.got.inForce().number()
	switch {
	case !d.usesPermits():
		return false
	case d.Op == AvailablePermits:
		left := d.left(false)
		return d.got.result == decimal(left) && value == left
	case d.Op == Release && !d.valued:
		return value == d.rate
	case d.Op == Release:
		return value == min(d.rate, d.value+d.Permits)
	}
	return d.acquiresByValue(value)
}

// acquiresByValue is followsValue for tryAcquire, which has left a value.
func (d deviation) acquiresByValue(value int64) bool {
	left := d.left(true)
	switch {
	case !d.takes():
		return d.got.err == ExceedsRate
	case double(d.Permits) <= double(left) || !d.valued:
		return d.got.result == "true" && value == left-d.Permits
	case d.got.err == nilValue:
		return len(d.live) == 0 && value == left
	}
	return d.got.result == "false" && value == left
}

// usesPermits reports whether the step looks at value and records.
func (d deviation) usesPermits() bool {
	return d.whole && (d.Op == TryAcquire || d.Op == AvailablePermits || d.Op == Release && d.Permits > 0)
}

// takes reports whether Redisson takes permits or says that too few are left,
// instead of refusing a request above the rate.
func (d deviation) takes() bool {
	return d.Op == TryAcquire && d.whole && double(d.Permits) <= double(d.rate)
}

// refusesElse reports whether Redisson refuses the permits for another reason
// than Go: Go looks at the number before it asks Redis.
func (d deviation) refusesElse() bool {
	return !d.whole && d.got.err == NotInitialized || d.whole && !d.takes() && d.got.err == ExceedsRate
}
