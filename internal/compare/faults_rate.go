package compare

import (
	"time"

	"github.com/redisson-go/rratelimiter"
)

// The faults of calls that set a rate, read it, or let the limiter end.

// B6: what an earlier limiter has left behind counts for a new one.
func leftoversCount(d deviation) parts {
	_, typed := d.before.hash["type"]
	if typed || !d.setsRate() || d.got.hash == nil {
		return 0
	}
	if !d.before.pairs[d.Limit.Type].empty() {
		return inPermits
	}
	if d.keepsRecords() { // Java creates a value where none has to be
		return inValue | inEnds
	}
	return 0
}

// B7: setting a rate without keep alive leaves the former keep alive, or any
// other time to live.
func keepAliveStays(d deviation) parts {
	if d.Op != SetRate && d.Op != UpdateRate || d.Limit.KeepAlive != 0 {
		return 0
	}
	if d.before.ends == 0 || !near(d.got.ends, d.before.ends) {
		return 0
	}
	return inEnds
}

// B7: a trySetRate that returns false adds keepAliveTime.
func refusalAddsKeepAlive(d deviation) parts {
	if _, had := d.before.hash["keepAliveTime"]; d.Op != TrySetRate || !d.whole || had {
		return 0
	}
	if d.got.hash["keepAliveTime"] != decimal(d.Limit.KeepAlive.Milliseconds()) {
		return 0
	}
	return inFields
}

// B8: the pair of the other type stays behind.
func otherPairStays(d deviation) parts {
	other := 1 - int(d.Limit.Type)
	if !d.setsRate() || d.before.pairs[other].empty() || d.got.pairs[other].empty() {
		return 0
	}
	return inOther
}

// B8: keys that stayed behind get a time to live with the others, or end at
// another time.
func keysStayBehind(d deviation) (in parts) {
	if !d.before.pairs[1-d.typ].empty() && (d.Op == Expire || d.Op == ClearExpire) {
		in |= inOther
	}
	if d.before.looseEnds() {
		in |= inEnds | inOther
		if d.Op == ClearExpire {
			in |= inAnswer
		}
	}
	return in
}

// B10: without the hash there is no limiter, but for expire and clearExpire any
// of the five keys is one.
func leftoversExpire(d deviation) parts {
	if d.Op != Expire && d.Op != ClearExpire || d.before.hash != nil || d.before.nothing() {
		return 0
	}
	return inAnswer | inEnds | inOther
}

// B11: a rate below the permits that are taken forgets the rest of them.
func debtForgotten(d deviation) parts {
	if !d.keepsRecords() || d.typ != int(d.Limit.Type) {
		return 0
	}
	live, _ := d.pair.split(d.now, d.Limit.Interval.Milliseconds())
	if sum(live) <= d.Limit.Rate || d.got.inForce().value != "0" {
		return 0
	}
	return inValue
}

// B14: rates that Lua cannot count.
func rateBeyondDoubles(d deviation) parts {
	if !d.setsRate() || d.Limit.Rate <= mostRate {
		return 0
	}
	return accepted(d)
}

// B15: half a hash is completed, or taken for a whole one.
func halfHash(d deviation) parts {
	if d.before.hash == nil || d.whole {
		return 0
	}
	switch d.Op {
	case GetConfig:
		return inAnswer
	case TrySetRate, UpdateRate:
		return inAll
	}
	return 0
}

// B22: a rate or an interval that does not limit anything. Java writes records
// for an interval of 0, which never count; Go writes none.
func rateOfNothing(d deviation) parts {
	switch {
	case d.Op == AvailablePermits && d.followsValue() && d.rate < 0:
		return inAnswer
	case d.interval <= 0 && d.followsValue():
		return inPermits
	case d.setsRate() && (d.Limit.Rate < 1 || d.Limit.Interval < time.Millisecond):
		return accepted(d)
	}
	return 0
}

// accepted returns the parts that may differ when Java does what Go refuses.
func accepted(d deviation) parts {
	if d.want.err != BadArgument || d.got.err == BadArgument {
		return 0
	}
	return inAll
}

// getConfig returns a configuration of zeros where no rate is set.
func configOfNothing(d deviation) parts {
	if d.Op != GetConfig || d.before.hash != nil || d.got.result != describe(rratelimiter.Config{}) {
		return 0
	}
	return inAnswer
}
