package charging_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The specs here count what a Client leaves of itself: fields in the hash of a limiter, and goroutines.
// Whatever the fields are called, each beside those of the configuration counts.

const mayStay = 8 // fields of sessions unused for a minute

// A Client leaves one field in a limiter, however many RateLimiters it makes, and however long it is away in
// between. Releases that took records of other Clients share one more.
func TestAClientHasOneSession(t *testing.T) {
	for _, pause := range []int64{1, 59_000, 61_000} {
		t.Run(fmt.Sprintf("used every %d ms", pause), func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				const rate, clients = 1000, 4
				l := b.NewLimiter(Overall, rate, 24*time.Hour, rratelimiter.WithKeepAlive(48*time.Hour))
				var all [clients]*rratelimiter.Client
				for i := range all {
					all[i] = b.NewClient()
				}
				random, out := rand.New(rand.NewPCG(1, 2)), int64(0)
				for i := range redistest.Rounds(t, 60) {
					n := 1 + random.Int64N(5)
					l.By(all[i%clients]).Takes(n)
					if out += n; i%3 > 0 {
						l.By(all[random.IntN(clients)]).Gives(n - 1)
						out -= n - 1
					}
					l.By(all[random.IntN(clients)]).Has(rate - out)
					if fields := l.Fields(); len(fields) > clients+1 {
						b.Fatalf("%d fields of %d Clients and their releases after %d requests: %.300q",
							len(fields), clients, i+1, fields)
					}
					b.Now += pause
				}
				l.Keeps(rate, l.ValueKey(), l.PermitsKey())
			})
		})
	}
}

func TestASessionCostsAtMostAHundredBytes(t *testing.T) {
	const most = 100
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	l := b.NewLimiter(Overall, 1<<40, 24*time.Hour)
	join := func(clients int) (bytes int64) {
		for i := range clients {
			other := l.By(b.NewClient())
			other.Takes(1<<30 + int64(i)) // numbers as long as they get
			other.Gives(1 << 29)
		}
		bytes, err := s.Admin().MemoryUsage(t.Context(), l.Name(), 0).Result()
		b.Want(err)
		return bytes
	}
	one := join(1)
	if len(l.Fields()) == 0 {
		t.Fatal("it has left no field")
	}
	many := join(100)
	t.Logf("%d fields, %d bytes each: %.60q", len(l.Fields()), (many-one)/100, l.Fields()[0])
	if many-one > 100*most {
		t.Errorf("100 sessions cost %d bytes", many-one)
	}
	// Redis encodes a hash of this size in another way
	t.Logf("of 1000 more each costs %d bytes", (join(1000)-many)/1000)
}

// The first request of a new Client, and one a minute of a Client that goes on, removes the fields that were
// unused for a minute. Those of Clients that are in use stay, and a few do no harm.
func TestFieldsOfClientsThatHaveGoneAreSwept(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 1000, time.Hour)
		join := func() *Limiter {
			m := l.By(b.NewClient())
			m.Takes(1)
			return m
		}
		want := func(what string, want int) {
			b.Helper()
			if got := len(l.Fields()); got != want {
				b.Fatalf("%s: %d fields, want %d", what, got, want)
			}
		}
		stays := join()
		for range 79 {
			join()
		}
		b.Now += 30_000
		join()
		want("younger than a minute, they may still be needed", 81)
		b.Now += 30_000
		join()
		want("a minute old, they still may", 82)
		b.Now++
		join()
		want("the first ones are older", 3)
		b.Now += 59_000
		for range 5 {
			join()
		}
		want("three of a minute ago are few", 8)
		for range 40 {
			join()
		}
		b.Now += 1_000
		stays.Takes(1)
		b.Now += 60_001
		stays.Takes(1)
		want("one that goes on sweeps once a minute", 1)
		for range mayStay - 2 {
			join()
		}
		b.Now += 120_000
		join()
		want("so many are left alone", mayStay)
	})
}

// Many Clients that are in use make no call do more: their fields are looked at by
// a new one, and once a minute, not by each.
func TestManyClientsInUseMakeNoCallDoMore(t *testing.T) {
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	l := b.NewLimiter(Overall, 1<<40, time.Second)
	for range 100 {
		l.With().Takes(1)
	}
	b.Want(b.Look.ConfigResetStat(t.Context()).Err())
	m := l.With()
	for i := range 200 {
		m.Takes(1)
		if i%2 == 0 {
			m.Gives(1)
		}
		b.Now += 250 // 50 s
	}
	if n := redistest.Calls(t, b.Look, "evalsha"); n != 300 {
		t.Errorf("%d calls, want 300", n)
	}
	for _, command := range []string{"hgetall", "hkeys", "hscan", "hlen"} {
		if n := redistest.Calls(t, b.Look, command); n > 2 {
			t.Errorf("the hash was looked through by %s %d times in 300 calls", command, n)
		}
	}
}

// Another program has written the session of a Client. A number that the Client cannot reach says
// nothing, and the field is overwritten. The number of a later request makes each request a late copy,
// which gets nothing. But the Client does not ask without a break.
func TestAHostileSessionMakesNoBusyLoop(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		calls := b.CountScripts()
		for _, tc := range []struct {
			text    string
			granted bool
		}{
			{"9999999999999999 1 5 1", true},
			{"9999999999999999 9999999999999999999 99999999999999999999 0", true},
			{"99 1 0 0", true},
			{"", true},
			{strings.Repeat("1 ", 5_000), true},
			{strings.Repeat("9", 10_000) + " nan inf 0x10 1e3", true},
			{"1.5 -5 inf \x00\xff", true},
			{"0000000000900000 1 5 1", false},
		} {
			for what, ask := range map[string]func(l *Limiter) (bool, error){
				"acquire": func(l *Limiter) (bool, error) {
					return l.TryAcquire(b.Context(), 1, 150*time.Millisecond)
				},
				"group": func(l *Limiter) (bool, error) {
					return b.Client.All(l.RateLimiter).TryAcquire(b.Context(), 1, 150*time.Millisecond)
				},
				"release": func(l *Limiter) (bool, error) {
					b.Want(l.Release(b.Context(), 2))
					n, err := l.AvailablePermits(b.Context())
					return n == 9, err
				},
			} {
				l := b.NewLimiter(Overall, 10, time.Hour)
				l.Takes(2)
				b.Want(Yes(b.Client.All(l.RateLimiter).TryAcquire(b.Context(), 1, 0)))
				for _, field := range l.Fields() {
					b.Want(b.Look.HSet(b.Context(), l.Name(), field, tc.text).Err())
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
