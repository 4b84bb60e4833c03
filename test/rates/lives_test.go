package rates_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// lifeOf are the kinds of limiter that differ in how long they live. Each has a rate of 10 per 2 s.
var lifeOf = []struct {
	name string
	of   func(l *Limiter) *Limiter
}{
	{"for ever", func(l *Limiter) *Limiter {
		l.Want(l.SetRate(l.Context(), Overall, 10, 2*time.Second))
		return l
	}},
	{"WithKeepAlive", func(l *Limiter) *Limiter {
		l.Want(l.SetRate(l.Context(), Overall, 10, 2*time.Second, rratelimiter.WithKeepAlive(4*time.Second)))
		return l
	}},
	{"Expire", func(l *Limiter) *Limiter {
		l.Want(l.SetRate(l.Context(), Overall, 10, 2*time.Second))
		l.Want(Yes(l.Expire(l.Context(), time.Minute)))
		return l
	}},
	{"WithRate", func(l *Limiter) *Limiter { return l.Wrap(l.WithRate(10, 2*time.Second)) }},
	{"WithRate and WithKeepAlive", func(l *Limiter) *Limiter {
		return l.Wrap(l.WithRate(10, 2*time.Second, rratelimiter.WithKeepAlive(4*time.Second)))
	}},
	{"PER_CLIENT", func(l *Limiter) *Limiter {
		l.Want(l.SetRate(l.Context(), PerClient, 10, 2*time.Second))
		return l
	}},
	{"PER_CLIENT WithKeepAlive", func(l *Limiter) *Limiter {
		alive := rratelimiter.WithKeepAlive(4 * time.Second)
		l.Want(l.SetRate(l.Context(), PerClient, 10, 2*time.Second, alive))
		return l
	}},
	{"PER_CLIENT Expire", func(l *Limiter) *Limiter {
		l.Want(l.SetRate(l.Context(), PerClient, 10, 2*time.Second))
		l.Want(Yes(l.Expire(l.Context(), time.Minute)))
		return l
	}},
	{"WithRate PER_CLIENT and WithKeepAlive", func(l *Limiter) *Limiter {
		l.Want(l.SetRate(l.Context(), PerClient, 10, 2*time.Second))
		return l.Wrap(l.WithRate(10, 2*time.Second, rratelimiter.WithKeepAlive(4*time.Second)))
	}},
}

// Whatever has set or removed the time to live of one key, or the key: after an acquire of Go, granted or
// refused, value and permits live as long as the hash does, and not for ever beside a hash that ends; and the
// value no longer than the permits.
func TestKeysLiveTogetherAfterAnAcquire(t *testing.T) {
	const plain, persist, gone = 0, -1, -2
	const soon, later, late = 2500 * time.Millisecond, 6 * time.Second, time.Hour
	acts := map[string]func(l *Limiter){
		"granted": func(l *Limiter) { l.Takes(1) },
		"with numbers": func(l *Limiter) {
			if r, err := l.Allow(l.Context(), 1); err != nil || !r.Allowed {
				l.Fatal(r, err)
			}
		},
		"refused": func(l *Limiter) { l.Want(No(l.TryAcquire(l.Context(), 9, 0))) },
		"general": func(l *Limiter) {
			l.Want(l.Look.HSet(l.Context(), l.Name(), "longest", "x").Err())
			l.Takes(1)
		},
		"group": func(l *Limiter) {
			other := l.NewLimiter(Overall, 10, time.Second)
			l.Want(Yes(l.Client.All(l.RateLimiter, other.RateLimiter).TryAcquire(l.Context(), 1, 0)))
		},
		"released": func(l *Limiter) { l.Gives(1) },
	}
	OnBoth(t, func(b *Bench) {
		for _, kind := range lifeOf {
			for changed := range 3 {
				for _, ttl := range []time.Duration{plain, persist, gone, soon, later, late} {
					for act, acts := range acts {
						if ttl == gone && errs(kind.name, act, changed) {
							continue
						}
						l := kind.of(b.NewLimiter(Overall, 0, 0))
						l.Takes(3)
						keys := keysInUse(l)
						switch {
						case ttl == persist:
							b.Want(b.Look.Persist(b.Context(), keys[changed]).Err())
						case ttl == gone:
							b.Want(b.Look.Del(b.Context(), keys[changed]).Err())
						case ttl > 0:
							b.Want(b.Look.PExpire(b.Context(), keys[changed], ttl).Err())
						}
						acts(l)
						if bad := apart(l, keys); bad != "" {
							b.Errorf("%s, %s after %s of %v: %s", kind.name, act, keys[changed], ttl, bad)
						}
						b.Want(Yes(l.Delete(b.Context()))) // keys that end make miniredis slow
					}
				}
			}
		}
	})
}

// errs reports whether there is nothing that acts could do where one of the keys is gone.
func errs(kind, act string, key int) bool {
	switch key {
	case 0:
		return act == "released" || kind != "WithRate" && kind != "WithRate and WithKeepAlive"
	case 2:
		return act == "released" || act == "refused"
	}
	return false
}

// keysInUse returns the hash, the value and the permits that exist.
func keysInUse(l *Limiter) []string {
	keys := l.Keys()
	if l.Look.Exists(l.Context(), keys[1]).Val() == 0 {
		keys[1], keys[2] = keys[1]+":"+l.Client.ID(), keys[2]+":"+l.Client.ID()
	}
	return keys
}

// apart tells how the keys do not live together; it is empty if they do.
func apart(l *Limiter, keys []string) string {
	// miniredis counts from the real time of each command, however slow a script is.
	const rounding = time.Second
	var lives []time.Duration
	looks, err := l.Look.TxPipelined(l.Context(), func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.PTTL(l.Context(), key)
		}
		return nil
	})
	l.Want(err)
	for _, look := range looks {
		lives = append(lives, look.(*redis.DurationCmd).Val())
	}
	hash, ofClient := lives[0], strings.HasSuffix(keys[1], l.Client.ID())
	if value, permits := lives[1], lives[2]; value > permits+rounding || value < 0 && permits != value {
		return fmt.Sprint(lives)
	}
	for _, life := range lives[1:] {
		switch {
		case hash == -1 && ofClient:
			if life > 4*time.Second {
				continue // two intervals and a minute
			}
		case hash == -1 && life == -1,
			hash > 0 && life >= hash-rounding && life <= hash+3*time.Second+rounding:
			continue
		}
		return fmt.Sprint(lives)
	}
	return ""
}

// In its last ms a limiter still has an end.
func TestTheLastMillisecondOfALimiter(t *testing.T) {
	Bubble(t, func(l *Limiter) {
		l.Want(l.SetRate(l.Context(), Overall, 10, 10*time.Second))
		l.Want(Yes(l.Expire(l.Context(), 5*time.Millisecond)))
		l.Sleep(4500 * time.Microsecond)
		if r, err := l.Allow(l.Context(), 10); err != nil || !r.Allowed || r.ResetAfter != time.Millisecond {
			l.Fatal(r, r.ResetAfter, err)
		}
		if r, err := l.Allow(l.Context(), 1); err != nil || r.Allowed || r.RetryAfter > time.Millisecond {
			l.Fatal(r, err)
		}
		l.Sleep(2 * time.Millisecond)
		if n := l.Look.Exists(l.Context(), l.Keys()...).Val(); n != 0 {
			l.Fatalf("%d keys outlive the hash", n)
		}
	})
}

// Where callers of several Clients share a limiter, their pauses end with it as well.
func TestPausesEndWithTheLimiter(t *testing.T) {
	Bubble(t, func(l *Limiter) {
		l.Want(l.SetRate(l.Context(), Overall, 100, time.Minute))
		began, ended := time.Now(), make(chan time.Duration, 80)
		for range 4 {
			other := l.Other()
			for range 20 {
				go func() {
					for {
						err := other.Acquire(l.Context(), 1)
						if errors.Is(err, rratelimiter.ErrNotInitialized) {
							break
						}
					}
					ended <- time.Since(began)
				}()
			}
		}
		l.Sleep(time.Second)
		l.Want(Yes(l.Expire(l.Context(), time.Second)))
		for range 80 {
			if d := <-ended; d > 2*time.Second+100*time.Millisecond {
				l.Fatalf("a caller waited until %v, want 2s", d)
			}
		}
	})
}

// Beside a Java whose clock is ahead Go finds no expired record, but still checks the value.
func TestAWrongValueIsFoundBesideAFastClock(t *testing.T) {
	const pause = 50 * time.Millisecond
	for what, call := range map[string]func(l *Limiter){
		"TryAcquire": func(l *Limiter) { l.Takes(1) },
		"refused":    func(l *Limiter) { l.Want(No(l.TryAcquire(l.Context(), 100, 0))) },
		"Group": func(l *Limiter) {
			l.Want(Yes(l.Client.All(l.RateLimiter).TryAcquire(l.Context(), 1, 0)))
		},
	} {
		for _, java := range []int{0, 1} { // records of Java for each call of Go
			t.Run(fmt.Sprint(what, " beside ", java), func(t *testing.T) {
				Bubble(t, func(l *Limiter) {
					l.Want(l.SetRate(l.Context(), Overall, 100, time.Second))
					l.Takes(1)
					l.Want(l.Look.DecrBy(l.Context(), l.ValueKey(), 40).Err()) // Java was charged twice
					for range 600 {
						ahead := time.Now().Add(200 * time.Millisecond).UnixMilli()
						old := l.Look.ZRangeArgs(l.Context(), redis.ZRangeArgs{
							Key: l.PermitsKey(), ByScore: true, Start: "-inf", Stop: ahead - 1000,
						}).Val()
						if len(old) > 0 {
							last := int64(len(old)) - 1
							l.Want(l.Look.ZRemRangeByRank(l.Context(), l.PermitsKey(), 0, last).Err())
							l.Want(l.Look.IncrBy(l.Context(), l.ValueKey(), last+1).Err())
						}
						if java > 0 || what == "refused" {
							l.Record(ahead, fmt.Sprintf("\x10%016d\x01\x00\x00\x00", ahead))
							l.Want(l.Look.Decr(l.Context(), l.ValueKey()).Err())
						}
						call(l)
						l.Sleep(pause)
					}
					l.Keeps(100, l.ValueKey(), l.PermitsKey())
				})
			})
		}
	}
}
