package rratelimiter

import (
	"context"
	"math"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Repaired is what Repair has found. If a reply was lost on the way, the numbers may
// be lower than what was done.
type Repaired struct {
	// Records is how many there are now.
	Records int64

	// Rewritten is how many records were in another format, were dated more than an
	// interval ahead, or were joined to one.
	Rewritten int64

	// Dropped is how many records no version of Redisson could have written, or held
	// no permits.
	Dropped int64

	// Drift is by how many permits the value was too high; below 0 it was too low.
	Drift int64
}

// Repair brings the records of a limiter into the format of the Client
// (WithRedisson), drops what is no record, and makes the value agree with
// what is left. Nobody who holds permits gains or loses any by it.
//
// It is for a limiter whose Java clients have moved to another Redisson: records
// that an older version has left behind make calls of a newer one fail, or
// grant far too much. Run it when the last of the older clients has stopped. It does
// no harm to a limiter in use, or to one that needs no repair. One call of Redis
// handles up to 2,000 records. If there are more, it takes several calls, and the
// records of a thousandth of an interval become one: their permits come back up to
// that much later, never earlier.
//
// For a PerClient limiter it repairs what this Client has written. Errors are
// ErrNotInitialized if no rate is set, ErrBadState if the hash cannot be read,
// ErrClosed and ErrNoAnswer.
func (l *RateLimiter) Repair(ctx context.Context) (Repaired, error) {
	k := l.keys.Load()
	return within(ctx, k, k.repair)
}

func (k *limiterKeys) repair(ctx context.Context) (Repaired, error) {
	var all Repaired
	layout := &wire.Layouts[k.client.format]
	const (
		atOnce     = 2000 // records of a call: some 5 ms of Redis
		manyPasses = 3
	)
	for cursor, most, passes := int64(0), int64(atOnce), 0; ; {
		// Each call has random bytes of its own to go on from.
		pattern := layout.Append(make([]byte, 0, wire.RecordSpace), 1, false)
		args := argumentsOf(k.client.session, "", cursor, pattern, k.client.now(), "", "", "", "", k.Changed)
		args = append(args, layout.Header, most)
		reply, _, err := k.run(ctx, operation{repairScript, time.Now(), args, nil})
		if err != nil {
			return all, err
		}
		all.Records = reply.At(1)
		all.Rewritten += reply.At(2)
		all.Dropped += reply.At(3)
		all.Drift += reply.At(4)
		switch cursor = reply.At(0); cursor {
		case 0:
			return all, nil
		case 1:
			// Records of 2^32 permits cannot be joined, and others may add more
			// records than a pass takes away: then the last is one long call.
			if passes++; passes == manyPasses {
				most = math.MaxInt32
			}
		}
	}
}
