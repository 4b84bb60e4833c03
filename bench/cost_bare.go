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
// long in Redis, so the difference between the two is our Go code.
//
// The difference to the floor cannot show that. A reply that comes within a few
// µs finds a processor that is still awake. A reply that comes a little later
// may find it asleep, and waking it takes several times as long as the call.
func newBare(ctx context.Context, c *costing, rdbs [2]*redis.Client, recorded *redis.Client) (
	*caller, error,
) {
	limiter, remove, err := c.limiter(ctx, states[0])
	defer remove()
	if err != nil {
		return nil, err
	}
	var rec recorder
	recorded.AddHook(&rec)
	if _, err := c.scope.client(recorded).RateLimiter(limiter).TryAcquire(ctx, 1, 0); err != nil {
		return nil, err
	}
	if rec.record() == "" {
		return nil, errors.New("TryAcquire sent no EVALSHA whose last argument is a record")
	}
	same := &caller{label: "bare", limits: true}
	var number atomic.Int64
	if text, ok := rec.argv[numberAt].(string); ok {
		last, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, err
		}
		number.Store(last)
	}
	for r, rdb := range rdbs {
		same.via[r] = func(another string) ask {
			return replay(rdb, rec.of(limiter, another), rec.record(), &number)
		}
	}
	return same, nil
}

// numberAt is the place of a request's number among the arguments, behind its
// session.
const numberAt = 8

// replay sends argv, each time with a new record and the next number: a request
// that is repeated would be refused as charged already.
func replay(rdb *redis.Client, argv []any, record string, number *atomic.Int64) ask {
	return func(ctx context.Context) (bool, error) {
		argv[numberAt], argv[len(argv)-1] = fmt.Sprintf("%016d", number.Add(1)), another(record)
		reply, err := rdb.Do(ctx, argv...).Result()
		return reply == int64(0), err // a refusal is an array
	}
}

// another returns a record that differs from all others: the bytes behind the
// first are random.
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

// of returns the request with the name of another limiter.
func (r *recorder) of(limiter, another string) []any {
	argv := slices.Clone(r.argv)
	for i, arg := range argv {
		if text, ok := arg.(string); ok {
			argv[i] = strings.ReplaceAll(text, limiter, another)
		}
	}
	return argv
}

// A recorder sees what go-redis sends, with its arguments still apart.
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
