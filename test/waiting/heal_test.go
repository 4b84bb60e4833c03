package waiting_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/shares"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A scripts counts calls of scripts, and those that heal a limiter.
type scripts struct{ calls, heals atomic.Int64 }

// see counts calls. That of heal.lua has a session, no number, and how far it has come.
func (s *scripts) see(_ context.Context, cmds ...redis.Cmder) error {
	const session, number, done = 7, 8, 9 // arguments of EVALSHA
	for _, cmd := range cmds {
		args := cmd.Args()
		if cmd.Name() != "evalsha" || len(args) <= done {
			continue
		}
		if !strings.HasPrefix(fmt.Sprint(args[session]), "session:") {
			continue
		}
		_, isText := args[done].(string)
		if s.calls.Add(1); args[number] == "" && !isText {
			s.heals.Add(1)
		}
	}
	return nil
}

// Beside Java fewer than one call of 200 heals the limiter, also where the clock of Java is wrong.
func TestFewCallsHeal(t *testing.T) {
	t.Parallel()
	const wrong = 50 * time.Millisecond
	for _, ahead := range []time.Duration{-wrong, 0, wrong} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			const often, each = 100, 3 // permits a second; a few of these are enough
			var seen scripts
			n := 0
			for _, sc := range shares.Scenarios() {
				if sc.Rate*int64(time.Second/sc.Interval) < often {
					continue
				}
				if n++; n%each == 0 {
					Bubble(t, func(c *Limiter) { simulate(c, sc, model{ahead: ahead, sees: seen.see}) })
				}
			}
			calls, heals := seen.calls.Load(), seen.heals.Load()
			t.Logf("%d of %d calls", heals, calls)
			if calls < 1000 || heals*200 > calls {
				t.Errorf("%d of %d calls healed the limiter", heals, calls)
			}
		})
	}
}
