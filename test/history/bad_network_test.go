package history_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// tooLate is how long a client on a bad network waits for a reply. Some replies come later than that.
const tooLate = 80 * time.Millisecond

// A badNetwork is between a client and its server.
type badNetwork struct {
	rdb   *redis.Client
	proxy *redistest.Proxy
	clear func() // ends the faults, and lets everything that was held go out
}

// newBadNetwork returns a client of s behind a bad network. attempts is how often go-redis sends a command
// before its caller gets an error. All goes slow times slower than where the machine has nothing else to do.
func newBadNetwork(t *testing.T, s *redistest.Server, attempts int, slow time.Duration,
	seed uint64) *badNetwork {
	t.Helper()
	p := redistest.StartProxy(t, s.Addr)
	rdb := redis.NewClient(&redis.Options{
		Addr: p.Addr, ReadTimeout: slow * tooLate, PoolSize: 20, MaxRetries: attempts - 1,
		MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 4 * time.Millisecond,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	end, all := make(chan struct{}), &sync.WaitGroup{}
	stop := sync.OnceFunc(func() {
		close(end)
		all.Wait()
		p.Delay(0)
		p.SwallowReply(0)
		p.Cut() // callers that wait for a lost reply learn of it now
		var pings sync.WaitGroup
		for range 40 { // until the connections that were cut are noticed
			pings.Go(func() { _ = rdb.Ping(context.Background()).Err() })
		}
		pings.Wait()
	})
	t.Cleanup(stop)
	all.Go(func() { storm(p, slow, rand.New(rand.NewPCG(seed, 7)), all, end) })
	return &badNetwork{rdb, p, stop}
}

// storm makes one fault after another until end is closed.
func storm(p *redistest.Proxy, slow time.Duration, random *rand.Rand, all *sync.WaitGroup,
	end <-chan struct{}) {
	ms := func(most int) time.Duration { return slow * time.Duration(1+random.IntN(most)) * time.Millisecond }
	pause := func(d time.Duration) (ended bool) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return false
		case <-end:
			return true
		}
	}
	for !pause(ms(120)) {
		switch random.IntN(4) {
		case 0: // it is done, and the reply is lost
			p.SwallowReplyTo(1+random.IntN(3), func(args []string) bool {
				select {
				case <-end:
					return false
				default:
					return runsScript(args)
				}
			})
		case 1: // before or after it is done
			p.Cut()
		case 2: // the second copy overtakes the first, and perhaps a third copy the second
			for range 1 + random.IntN(2) {
				letOut := p.HoldNext(1, runsScript)
				pause(ms(8))
				p.Cut()
				due := ms(150)
				all.Go(func() {
					pause(due)
					letOut()
				})
			}
		default: // the reply to what is sent again is also too late
			p.Delay(slow*tooLate + ms(30))
			pause(ms(60))
			p.Delay(0)
		}
	}
}

// runsScript reports whether a command runs a script.
func runsScript(args []string) bool {
	return strings.EqualFold(args[0], "evalsha") || strings.EqualFold(args[0], "eval")
}
