package rratelimiter

import "context"

// Repaired has the numbers of a Repair. If a reply was lost on the way, they may
// be too low.
type Repaired struct {
	// Records is the number of records after Repair.
	Records int64

	// Rewritten is the number of records that were in another format, or, for a Client with
	// WithClock, dated more than an interval ahead.
	Rewritten int64

	// Dropped is the number of members that no version of Redisson could have
	// written, or that held no permits.
	Dropped int64

	// Drift is the number of permits by which the value was too high; below 0 it
	// was too low. It is 0 if there was no value, or one of another rate.
	Drift int64
}

// Repair brings the records of a limiter into the format of the Client (WithRedisson),
// drops members that are not records, and makes the value agree with the remaining
// records. No caller gains or loses permits.
//
// It is for a limiter whose Java clients have moved to another Redisson: records left behind by an older
// version make calls of a newer one fail, or grant far too much. Run it when the last of the older clients
// has stopped. It does no harm to a limiter in use, or to one that needs no repair. One call to Redis handles
// up to 250 records. If there are more than 2,000, the records of a thousandth of an interval are merged, as
// acquires do: their permits come back up to a thousandth of an interval late, never early. Records of
// reservations and leases stay as they are, unless they are in another format: then their settlement frees
// nothing. If more than 4,000 records stay, the value is left to the next acquires.
//
// For a PerClient limiter it repairs what this Client has written. Errors are
// ErrNotInitialized if no rate is set, ErrBadState if the hash cannot be read,
// ErrClosed and ErrNoAnswer.
func (l *RateLimiter) Repair(ctx context.Context) (Repaired, error) {
	found, err := l.limiter.Load().Repair(ctx)
	return Repaired(found), err
}
