package rratelimiter

import (
	"context"
	"math"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Repaired is what Repair has found. Where a reply was lost on the way, it may
// tell of less than was done.
type Repaired struct {
	Records   int64 // there are now
	Rewritten int64 // those that were in another format, dated more than an interval ahead, or made one
	Dropped   int64 // those that no version of Redisson could have written, or that held no permits
	Drift     int64 // permits by which the value was too high; below 0: too low
}

// Repair brings the records of a limiter into the format of the Client
// (WithRecordFormat), drops what is no record, and makes the value agree with
// what is left. Nobody who holds permits gains or loses any by it.
//
// It is for a limiter whose Java clients have moved to another Redisson: records
// that an older version has left behind make calls of a newer one fail, or
// grant far too much. Run it when the last of the older clients has stopped; a
// limiter in use, and one that needs nothing, come to no harm. One call of Redis
// handles up to 2,000 records. Where there are more, it takes several, and those
// of a thousandth of an interval become one: their permits come back up to that
// much later, never earlier.
//
// For a PerClient limiter it repairs what this Client has written. A limiter
// without a rate is an ErrNotInitialized, one whose hash cannot be read an
// ErrBadState.
func (l *RateLimiter) Repair(ctx context.Context) (Repaired, error) {
	k := l.keys.Load()
	return within(ctx, k, k.repair)
}

func (k *limiterKeys) repair(ctx context.Context) (Repaired, error) {
	var all Repaired
	layout := k.client.format.layout()
	for cursor, most, passes := int64(0), int64(2000), 0; ; {
		// Each call has random bytes of its own to go on from.
		pattern := layout.Append(make([]byte, 0, wire.RecordSpace), 1, false)
		args := argumentsOf(k.client.session, "", cursor, pattern, k.client.now(), "", "", "", "", k.Changed)
		args = append(args, layout.Header, most)
		reply, _, err := k.run(ctx, operation{repairScript, time.Now(), args})
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
			// Records of 2^32 permits cannot be made fewer, and others may add
			// more than it takes away: then it is once one long call.
			if passes++; passes == 3 {
				most = math.MaxInt32
			}
		}
	}
}
