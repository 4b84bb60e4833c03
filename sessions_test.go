package rratelimiter_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The specs here count what a Client leaves of itself: fields in the hash of a
// limiter, and goroutines. Whatever the fields are called, each beside those of
// the configuration counts.

const (
	configured = 4 // fields of the configuration: rate, interval, type, keepAliveTime
	mayStay    = 8 // fields of sessions that nobody has used for a minute
)

// fields are those of the hash that are not the configuration's.
func (l *limiter) fields() (others []string) {
	l.b.Helper()
	all, err := l.b.look.HKeys(context.Background(), l.Name()).Result()
	l.b.want(err)
	for _, field := range all {
		switch field {
		case "rate", "interval", "type", "keepAliveTime":
		default:
			others = append(others, field)
		}
	}
	return others
}

// by is the same limiter by a Client, in a RateLimiter of its own.
func (l *limiter) by(c *rratelimiter.Client) *limiter {
	return &limiter{c.RateLimiter(l.Name()), l.b}
}

// eachFormat runs a spec on miniredis and on a real redis-server, with requests
// that leave their records, and with a resolution.
func eachFormat(t *testing.T, spec func(b *bench, opts ...rratelimiter.Option)) {
	t.Helper()
	t.Run("default", func(t *testing.T) { onBoth(t, func(b *bench) { spec(b) }) })
	t.Run("resolution", func(t *testing.T) {
		onBoth(t, func(b *bench) { spec(b, rratelimiter.WithResolution(10*time.Millisecond)) })
	})
}

// The fields of Clients that are gone are swept by whoever goes on, also where it
// goes on with the session that it had before.
func TestSessionsOfTheGoneAreSwept(t *testing.T) {
	for _, gone := range []int{50, 300} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d gone, one before them %v", gone, before), func(t *testing.T) {
				eachFormat(t, func(b *bench, opts ...rratelimiter.Option) { sweeps(b, gone, before, opts...) })
			})
		}
	}
}

func sweeps(b *bench, gone int, before bool, opts ...rratelimiter.Option) {
	l := b.limiter(overall, 1000, time.Hour, rratelimiter.WithKeepAlive(24*time.Hour))
	stays := l.by(b.newClient(opts...))
	if before {
		stays.takes(1)
		stays.gives(1)
	}
	for range gone {
		c := b.newClient(opts...)
		other := l.by(c)
		other.takes(2)
		other.gives(2)
		b.want(c.Close())
	}
	b.now += 61_000
	for range 200 { // each may sweep a few
		stays.takes(3)
		stays.gives(1)
		b.now += 5
	}
	if fields := l.fields(); len(fields) > mayStay+1 {
		b.Errorf("%d fields besides the configuration, want at most %d and one: %.200q", len(fields), mayStay, fields)
	}
	stays.has(1000 - 200*2)
	l.keeps(1000, l.value(), l.permits())
}

// A Client leaves one field in a limiter, however many RateLimiters it makes, and
// however long it is away in between.
func TestAClientHasOneSession(t *testing.T) {
	for _, pause := range []int64{1, 59_000, 61_000} {
		t.Run(fmt.Sprintf("used every %d ms", pause), func(t *testing.T) {
			eachFormat(t, func(b *bench, opts ...rratelimiter.Option) {
				const rate, clients = 1000, 4
				l := b.limiter(overall, rate, 24*time.Hour, rratelimiter.WithKeepAlive(48*time.Hour))
				var all [clients]*rratelimiter.Client
				for i := range all {
					all[i] = b.newClient(opts...)
				}
				random, out := rand.New(rand.NewPCG(1, 2)), int64(0)
				for i := range 200 {
					n := 1 + random.Int64N(5)
					l.by(all[i%clients]).takes(n)
					if out += n; i%3 > 0 {
						l.by(all[random.IntN(clients)]).gives(n - 1)
						out -= n - 1
					}
					l.by(all[random.IntN(clients)]).has(rate - out)
					if fields := l.fields(); len(fields) > clients {
						b.Fatalf("%d fields of %d Clients after %d requests: %.300q", len(fields), clients, i+1, fields)
					}
					b.now += pause
				}
				l.keeps(rate, l.value(), l.permits())
			})
		})
	}
}

// A session costs a hash at most 100 bytes.
func TestWhatASessionCosts(t *testing.T) {
	const most = 100
	for name, opts := range map[string][]rratelimiter.Option{
		"default": nil, "resolution": {rratelimiter.WithResolution(10 * time.Millisecond)},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			b := newBench(t, s.Client(t), s.Admin())
			l := b.limiter(overall, 1<<40, 24*time.Hour)
			join := func(clients int) (bytes int64) {
				for i := range clients {
					other := l.by(b.newClient(opts...))
					other.takes(1<<30 + int64(i)) // numbers as long as they get
					other.gives(1 << 29)
				}
				bytes, err := s.Admin().MemoryUsage(t.Context(), l.Name(), 0).Result()
				b.want(err)
				return bytes
			}
			one := join(1)
			if len(l.fields()) == 0 {
				t.Fatal("it has left no field")
			}
			many := join(100)
			t.Logf("%d fields, %d bytes each: %.60q", len(l.fields()), (many-one)/100, l.fields()[0])
			if many-one > 100*most {
				t.Errorf("100 sessions cost %d bytes", many-one)
			}
			t.Logf("of 1000 more each costs %d bytes", (join(1000)-many)/1000) // Redis has another form for so many
		})
	}
}

// A RateLimiter for each request counts like one that is kept.
func TestARateLimiterForEachRequest(t *testing.T) {
	for typ, key := range map[rratelimiter.RateType]string{overall: "", perClient: ":me"} {
		onBoth(t, func(b *bench) {
			const rate = 40
			c := b.newClient(rratelimiter.WithID("me"))
			l := b.limiter(typ, rate, 24*time.Hour)
			random, out := rand.New(rand.NewPCG(3, 4)), int64(0)
			for range 500 {
				n := 1 + random.Int64N(5)
				if random.IntN(3) == 0 {
					l.by(c).gives(n)
					out = max(0, out-n)
				} else if r, err := c.RateLimiter(l.Name()).Allow(b.Context(), n); r.Allowed != (out+n <= rate) || err != nil {
					b.Fatalf("%d of %d are out, %d are asked for: %+v, %v", out, rate, n, r, err)
				} else if r.Allowed {
					out += n
				}
				l.by(c).has(rate - out)
				l.keeps(rate, l.value()+key, l.permits()+key)
				b.now += random.Int64N(3)
			}
		})
	}
}

// The rate of a PerClient limiter goes up and down again while a RateLimiter is
// not used: what it has known of the keys does not hold any more.
func TestTheRateChangesWhileAnotherRateLimiterIsUsed(t *testing.T) {
	for _, used := range []int64{2, 5, 10, 15} { // while the rate is high
		for _, anew := range []bool{false, true} {
			onBoth(t, func(b *bench) {
				l := b.limiter(perClient, 10, time.Hour)
				setter := b.newClient().RateLimiter(l.Name()) // it cannot correct what is b.client's own
				first, second := l, l.by(b.client)
				first.takes(1)
				b.want(setter.SetRate(b.Context(), perClient, 20, time.Hour))
				second.takes(used)
				b.want(setter.SetRate(b.Context(), perClient, 10, time.Hour))
				if anew {
					second = l.by(b.client)
				}
				granted := int64(0)
				for _, l := range []*limiter{first, second, first} {
					for range 20 {
						ok, err := l.TryAcquire(b.Context(), 1, 0)
						b.want(err)
						if ok {
							granted++
						}
					}
				}
				if want := max(0, 10-1-used); granted != want {
					b.Errorf("%d are out at a rate of 10, and %d more are granted, want %d", 1+used, granted, want)
				}
			})
		}
	}
}

// The rate goes down and up again, once by this Client, which keeps the permits that
// are taken, and once by another: the value of the rate in between is not believed.
func TestTheRateThatThisClientHasSet(t *testing.T) {
	for what, lower := range map[string]func(b *bench, l *limiter){
		"SetRate": func(b *bench, l *limiter) {
			b.want(l.SetRate(b.Context(), perClient, 1, time.Hour, rratelimiter.WithKeepState()))
		},
		"Repair": func(b *bench, l *limiter) {
			b.want(b.look.HSet(b.Context(), l.Name(), "rate", 1).Err())
			_, err := l.Repair(b.Context())
			b.want(err)
		},
		"an acquire, refused": func(b *bench, l *limiter) {
			b.want(b.look.HSet(b.Context(), l.Name(), "rate", 1).Err())
			if ok, err := l.TryAcquire(b.Context(), 1, 0); ok || err != nil {
				b.Error(ok, err)
			}
		},
		"a release": func(b *bench, l *limiter) {
			l.takes(1)
			b.want(b.look.HSet(b.Context(), l.Name(), "rate", 1).Err())
			b.want(l.Release(b.Context(), 1))
		},
	} {
		t.Run(what, func(t *testing.T) {
			onBoth(t, func(b *bench) {
				l := b.limiter(perClient, 20, time.Hour)
				l.takes(1)
				lower(b, l)
				b.want(b.look.HSet(b.Context(), l.Name(), "rate", 20).Err()) // as Java does: our pair stays
				l.takes(19)
				if ok, err := l.TryAcquire(b.Context(), 1, 0); ok || err != nil {
					b.Errorf("21 of 20: %v, %v", ok, err)
				}
			})
		})
	}
}

// Requests that fail leave few goroutines behind, however many limiters they are of.
func TestGoroutinesWhileRedisIsSilent(t *testing.T) {
	const (
		perSecond, seconds, names = 500, 5, 2000
		most                      = 1500
	)
	s := redistest.Start(t)
	b := newBench(t, s.Client(t), s.Admin())
	c := rratelimiter.New(s.Client(t))
	defer c.Close()
	name := redistest.Name(t)
	is(t, nil, c.RateLimiter(name).SetRate(t.Context(), overall, 10, time.Hour))
	_, err := c.RateLimiter(name).Allow(t.Context(), 1)
	is(t, nil, err)
	for i := range names {
		b.want(b.look.Copy(t.Context(), name, fmt.Sprintf("%s-%d", name, i), 0, false).Err())
	}
	before := runtime.NumGoroutine()
	thaw := s.Freeze(t)
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for i := range perSecond * seconds {
		<-tick.C
		all.Go(func() {
			l := c.RateLimiter(fmt.Sprintf("%s-%d", name, i%names))
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			if i%2 == 0 {
				ctx = context.Background() // its timeout ends it
			}
			if ok, err := l.TryAcquire(ctx, 1, 200*time.Millisecond); ok || err == nil {
				t.Errorf("%v, %v of a silent server", ok, err)
			}
		})
	}
	all.Wait()
	left := runtime.NumGoroutine() - before
	t.Logf("%d goroutines are left by %d requests", left, perSecond*seconds)
	if left > most {
		t.Errorf("want at most %d", most)
	}
	thaw()
	time.Sleep(time.Second) // what they have left is cleared up
	b.want(c.Close())
	untilWithin(t, 15*time.Second, func() bool { return runtime.NumGoroutine() <= before+10 })
}

// untilWithin is until with a time of its own.
func untilWithin(t *testing.T, limit time.Duration, is func() bool) {
	t.Helper()
	for start := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > limit {
			t.Fatalf("did not come true within %v", limit)
		}
	}
}
