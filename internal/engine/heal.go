package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// runPlain is run for a script that asks for heal.lua where the limiter is not plain. given is
// as in heal.
func (l *Limiter) runPlain(ctx context.Context, call *redisx.Call, given any) (redisx.Reply, error) {
	return l.plainly(ctx, call, given, func() (redisx.Reply, bool, error) { return l.run(ctx, call) })
}

// plainly is runPlain for a call that run sends.
func (l *Limiter) plainly(
	ctx context.Context, call *redisx.Call, given any, run func() (redisx.Reply, bool, error),
) (redisx.Reply, error) {
	for sent := 1; ; sent++ {
		reply, _, err := run()
		if err != nil || !asksForHeal(reply) {
			return reply, err
		}
		if _, err := l.heal(ctx, given); err != nil {
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
func (l *Limiter) heal(ctx context.Context, given any) (drift int64, err error) {
	args := argumentsOf(l.engine.session.boxed, "", 0, "", l.engine.now())
	if given != nil {
		args.put(argGivenRate, given)
	}
	began := time.Now()
	for sent := 1; ; sent++ {
		reply, _, err := l.run(ctx, newCall(healScript, args))
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
	if sent < most && time.Since(began) < sessionLife-time.Second {
		return nil
	}
	const text = ": it has too many records, and was sent %d requests for one call"
	return &Error{kind: limit.ErrNoAnswer, detail: fmt.Sprintf(text, sent)}
}
