package request

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// plainly calls run, which sends a call, until the limiter is plain (heal.lua). given is as in heal.
func (t *Target) plainly(
	ctx context.Context, call *redisx.Call, given any, run func() (redisx.Reply, bool, error),
) (redisx.Reply, error) {
	for sent := 1; ; sent++ {
		reply, _, err := run()
		if err != nil || !asksForHeal(reply) {
			return reply, err
		}
		if _, err := t.heal(ctx, given); err != nil {
			return reply, err
		}
		args := arguments(call.Args)
		args.put(argHealed, 1)
		call.Args = args
		if err := tooManyRounds(sent, call.Start); err != nil {
			return reply, err
		}
	}
}

// heal makes the limiter plain (scripts/heal.lua), and returns the permits by which its value
// was wrong. given is the text of the GivenRate of the call that needs it, nil if it has none.
func (t *Target) heal(ctx context.Context, given any) (drift int64, err error) {
	args := argumentsOf(t.source.session.boxed, "", 0, "", t.source.now())
	if given != nil {
		args.put(argGivenRate, given)
	}
	began := time.Now()
	for sent := 1; ; sent++ {
		reply, _, err := t.run(ctx, newCall(healScript, args))
		drift += reply.At(3)
		if err != nil || reply.At(0) == 0 {
			return drift, err
		}
		args.set(argPermits, reply.At(1))
		args.set(argRecords, reply.At(2))
		if err := tooManyRounds(sent, began); err != nil {
			return drift, err
		}
	}
}

// tooManyRounds returns an error if a script has asked too often, or for too
// long, to be sent again. Each round handles at least 1,000 records. A key that
// fills as fast as it is read must not occupy Redis for ever.
func tooManyRounds(sent int, began time.Time) error {
	const most = 10_000
	if sent < most && time.Since(began) < SessionLife-time.Second {
		return nil
	}
	const text = ": it has too many records, and was sent %d requests for one call"
	return &failure.Error{Kind: limit.ErrNoAnswer, Detail: fmt.Sprintf(text, sent)}
}
