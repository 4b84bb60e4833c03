package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// newBare is the request of this library, sent by go-redis itself. It takes as
// long in Redis, so what lies between the two is our Go code and nothing else.
//
// That cannot be told from the floor: an answer that comes within a few µs finds
// a processor that has not gone to sleep yet, while one that takes but a little
// longer may have to wake it up, which can take several times as long as either.
func newBare(ctx context.Context, b *bench, rdbs [2]*redis.Client, recorded *redis.Client) (*caller, error) {
	limiter, remove, err := b.limiter(ctx, states[0])
	defer remove()
	if err != nil {
		return nil, err
	}
	var rec recorder
	recorded.AddHook(&rec)
	if _, err := b.client(recorded).RateLimiter(limiter).TryAcquire(ctx, 1, 0); err != nil {
		return nil, err
	}
	if rec.record() == "" {
		return nil, errors.New("TryAcquire has sent no EVALSHA with a record at its end")
	}
	c := &caller{label: "bare", limits: true}
	var number atomic.Int64
	if text, ok := rec.argv[numberAt].(string); ok {
		last, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		number.Store(last)
	}
	for r, rdb := range rdbs {
		c.via[r] = func(another string) ask { return replay(rdb, rec.of(limiter, another), rec.record(), &number) }
	}
	return c, nil
}

// numberAt is where the number of a request stands, behind its session.
const numberAt = 8

// replay sends argv, each time with another record at its end and the next number.
func replay(rdb *redis.Client, argv []any, record string, number *atomic.Int64) ask {
	return func(ctx context.Context) (bool, error) {
		argv[numberAt], argv[len(argv)-1] = fmt.Sprintf("%016d", number.Add(1)), another(record)
		reply, err := rdb.Do(ctx, argv...).Result()
		return reply == int64(0), err // refused, it is numbers
	}
}

// another returns a record that differs from all others: behind the first byte
// are random ones.
func another(record string) string {
	b := []byte(record)
	binary.LittleEndian.PutUint64(b[1:], rand.Uint64())
	return string(b)
}

// recorder keeps the last EVALSHA that a client has sent.
type recorder struct{ argv []any }

// record returns the last argument, empty if that cannot be a record.
func (r *recorder) record() string {
	if len(r.argv) == 0 {
		return ""
	}
	last, ok := r.argv[len(r.argv)-1].([]byte)
	if !ok || len(last) <= 8 {
		return ""
	}
	return string(last)
}

// of returns the request, for another limiter.
func (r *recorder) of(limiter, another string) []any {
	argv := slices.Clone(r.argv)
	for i, arg := range argv {
		if text, ok := arg.(string); ok {
			argv[i] = strings.ReplaceAll(text, limiter, another)
		}
	}
	return argv
}

var _ redis.Hook = (*recorder)(nil)

// ProcessHook records.
func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			r.argv = slices.Clone(cmd.Args())
		}
		return next(ctx, cmd)
	}
}

// DialHook does nothing.
func (*recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook does nothing.
func (*recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
