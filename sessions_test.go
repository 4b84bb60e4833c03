package rratelimiter_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
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

// The fields of Clients that are gone are swept by a Client that goes on, also
// where it goes on with the session that it had before.
func TestSessionsOfTheGoneAreSwept(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprintf("50 gone, one before them %v", before), func(t *testing.T) {
			eachFormat(t, func(b *bench, opts ...rratelimiter.Option) { sweeps(b, 50, before, opts...) })
		})
	}
	t.Run("300 gone", func(t *testing.T) { onBoth(t, func(b *bench) { sweeps(b, 300, false) }) })
}

// Many Clients begin at once: a new one does not go through the fields of all others,
// which are in use.
func TestANewSessionLooksAtFewOthers(t *testing.T) {
	const others, most = 500, 50
	s := redistest.Start(t)
	b := newBench(t, s.Client(t), s.Admin())
	c := rratelimiter.New(b.rdb)
	defer c.Close()
	l := c.RateLimiter(redistest.Name(t))
	b.want(l.SetRate(t.Context(), overall, 10, time.Hour))
	fresh := fmt.Sprintf("%016d %d 1 0", 1, time.Now().UnixMilli())
	for i := range others {
		b.want(b.look.HSet(t.Context(), l.Name(), fmt.Sprintf("session:%016d", i), fresh).Err())
	}
	b.want(b.look.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	ok, err := l.TryAcquire(t.Context(), 1, 0)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	logs, err := b.look.SlowLogGet(t.Context(), -1).Result()
	b.want(err)
	scans := 0
	for _, log := range logs { // it has the commands of scripts as well
		if !strings.EqualFold(log.Args[0], "hscan") {
			continue
		}
		scans++
		if count, err := strconv.Atoi(log.Args[len(log.Args)-1]); err != nil || count > most {
			t.Errorf("%q, want at most %d fields", log.Args, most)
		}
	}
	if scans != 1 {
		t.Errorf("%d scans of the fields, want one", scans)
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
		b.Errorf("%d fields besides the configuration, want at most %d and one: %.200q", len(fields), mayStay,
			fields)
	}
	stays.has(1000 - 200*2)
	l.keeps(1000, l.value(), l.permits())
}

// A Client leaves one field in a limiter, however many RateLimiters it makes, and
// however long it is away in between. One more is of all releases that took others'
// records.
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
				for i := range redistest.Rounds(t, 60) {
					n := 1 + random.Int64N(5)
					l.by(all[i%clients]).takes(n)
					if out += n; i%3 > 0 {
						l.by(all[random.IntN(clients)]).gives(n - 1)
						out -= n - 1
					}
					l.by(all[random.IntN(clients)]).has(rate - out)
					if fields := l.fields(); len(fields) > clients+1 {
						b.Fatalf("%d fields of %d Clients and their releases after %d requests: %.300q",
							len(fields), clients, i+1, fields)
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
			// Redis has another form for so many
			t.Logf("of 1000 more each costs %d bytes", (join(1000)-many)/1000)
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
				} else if r, err := c.RateLimiter(l.Name()).Allow(b.Context(),
					n); r.Allowed != (out+n <= rate) || err != nil {
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
					b.Errorf("%d are out at a rate of 10, and %d more are granted, want %d", 1+used, granted,
						want)
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

// The fields of Clients that have gone are swept out: all that nobody has used for
// a minute, by the first request of a new Client, and of one that goes on by that
// after a minute. Those of Clients that are in use stay, and a few harm nobody.
func TestFieldsOfClientsThatHaveGone(t *testing.T) {
	eachFormat(t, func(b *bench, opts ...rratelimiter.Option) {
		l := b.limiter(overall, 1000, time.Hour)
		join := func() *limiter {
			m := l.by(b.newClient(opts...))
			m.takes(1)
			return m
		}
		want := func(what string, want int) {
			b.Helper()
			if got := len(l.fields()); got != want {
				b.Fatalf("%s: %d fields, want %d", what, got, want)
			}
		}
		stays := join()
		for range 79 {
			join()
		}
		b.now += 30_000
		join()
		want("younger than a minute, they may still be needed", 81)
		b.now += 30_000
		join()
		want("a minute old, they still may", 82)
		b.now++
		join()
		want("the first ones are older", 3)
		b.now += 59_000
		for range 5 {
			join()
		}
		want("three of a minute ago are few", 8)
		for range 40 {
			join()
		}
		b.now += 1_000
		stays.takes(1)
		b.now += 60_001
		stays.takes(1)
		want("one that goes on sweeps once a minute", 1)
		for range mayStay - 2 {
			join()
		}
		b.now += 120_000
		join()
		want("so many are left alone", mayStay)
	})
}

// Many Clients that are in use make no call do more: their fields are looked at by
// a new one, and once a minute, not by each.
func TestManyClientsInUse(t *testing.T) {
	s := redistest.Start(t)
	b := newBench(t, s.Client(t), s.Admin())
	l := b.limiter(overall, 1<<40, time.Second)
	for range 100 {
		l.coarse(100 * time.Millisecond).takes(1)
	}
	b.want(b.look.ConfigResetStat(t.Context()).Err())
	m := l.coarse(100 * time.Millisecond)
	for i := range 200 {
		m.takes(1)
		if i%2 == 0 {
			m.gives(1)
		}
		b.now += 250 // 50 s
	}
	stats, err := b.look.Info(t.Context(), "commandstats").Result()
	b.want(err)
	if !strings.Contains(stats, "cmdstat_evalsha:calls=300,") {
		t.Errorf("not 300 calls: %s", stats)
	}
	for stat := range strings.FieldsSeq(stats) {
		n := 0
		for _, command := range []string{"hgetall", "hkeys", "hscan", "hlen"} {
			if _, err := fmt.Sscanf(stat, "cmdstat_"+command+":calls=%d,", &n); err == nil && n > 2 {
				t.Errorf("the hash was looked through by %s %d times in 300 calls", command, n)
			}
		}
	}
}

// Somebody else has written the session of a Client. A number that the Client cannot reach says nothing, and the
// field is overwritten. One of a later request makes each request a late copy, which gets nothing. But the
// Client does not ask without a break.
func TestAHostileSessionMakesNoBusyLoop(t *testing.T) {
	onBoth(t, func(b *bench) {
		calls := b.countScripts()
		for _, tc := range []struct {
			text    string
			granted bool
		}{
			{"9999999999999999 1 5 1", true},
			{"9999999999999999 9999999999999999999 99999999999999999999 0", true},
			{"99 1 0 0", true},
			{"0000000000900000 1 5 1", false},
		} {
			for what, ask := range map[string]func(l *limiter) (bool, error){
				"acquire": func(l *limiter) (bool, error) {
					return l.TryAcquire(b.Context(), 1, 150*time.Millisecond)
				},
				"group": func(l *limiter) (bool, error) {
					return b.client.All(l.RateLimiter).TryAcquire(b.Context(), 1, 150*time.Millisecond)
				},
				"release": func(l *limiter) (bool, error) {
					b.want(l.Release(b.Context(), 2))
					n, err := l.AvailablePermits(b.Context())
					return n == 9, err
				},
			} {
				l := b.limiter(overall, 10, time.Hour)
				l.takes(2)
				b.want(yes(b.client.All(l.RateLimiter).TryAcquire(b.Context(), 1, 0)))
				for _, field := range l.fields() {
					b.want(b.look.HSet(b.Context(), l.Name(), field, tc.text).Err())
				}
				calls()
				ok, err := ask(l)
				if n := calls(); ok != tc.granted || ok && err != nil || n > 25 || ok && n > 2 {
					b.Errorf("%s, session %q: %v, %v in %d calls", what, tc.text, ok, err, n)
				}
			}
		}
	})
}
