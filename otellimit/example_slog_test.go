package otellimit_test

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// A logger is an Observer for operators. It does not log granted calls: there are too many.
type logger struct{ log *slog.Logger }

func (l logger) Observe(ctx context.Context, o rratelimiter.Observation) {
	level, text := slog.LevelDebug, "refused"
	switch {
	case o.Err != nil:
		level, text = slog.LevelError, "failed"
	case o.Result.Degraded:
		level, text = slog.LevelWarn, "decided without Redis"
	case o.RateReplaced:
		level, text = slog.LevelWarn, "replaced another rate"
	case o.Result.Allowed:
		return
	}
	l.log.LogAttrs(ctx, level, text, slog.String("policy", o.Policy), slog.Int64("permits", o.Permits),
		slog.Duration("took", o.Took), slog.Any("error", o.Err))
}

func ExampleObserver_log() {
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { // the time differs in each run
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})
	observer := logger{slog.New(handler)}
	for _, o := range []rratelimiter.Observation{ // as a Client does
		{Policy: "user", Permits: 1, Result: rratelimiter.Result{Allowed: true}},
		{Policy: "user", Permits: 1, Result: rratelimiter.Result{Allowed: true, Degraded: true}},
		{Policy: "user", Permits: 1, Result: rratelimiter.Result{Allowed: true}, RateReplaced: true},
		{Policy: "user", Permits: 1, Err: rratelimiter.ErrNoAnswer, Took: time.Second},
	} {
		observer.Observe(context.Background(), o)
	}
	// Output:
	// level=WARN msg="decided without Redis" policy=user permits=1 took=0s error=<nil>
	// level=WARN msg="replaced another rate" policy=user permits=1 took=0s error=<nil>
	// level=ERROR msg=failed policy=user permits=1 took=1s error="rratelimiter: no answer from Redis"
}
