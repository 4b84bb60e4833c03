package rratelimiter_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The specs of this file reproduce the faults of Redisson's limiter, by their
// number, and say what happens here instead.

// B1: a release raises the value and leaves the records, which are credited
// again when they expire.
func TestB1ReleaseTakesThePermitsOutOfTheRecords(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second)
		l.takes(5)
		l.gives(5)
		b.now++
		l.takes(10)
		b.now += 999 // the first 5 would expire now
		l.refused(1, time.Millisecond)
		b.now++
		l.has(10)
	})
}

func TestB1ReleaseDoesNotCountTwiceTheOtherWayRound(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second)
		for range 9 {
			l.takes(1)
			l.gives(1)
			b.now++
		}
		b.now += 1000
		l.takes(1)
		l.has(9)
		l.keeps(10, l.value(), l.permits())
	})
}

func TestB1ReleaseComesOutOfTheNewestRecords(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 20, time.Second)
		for _, n := range []int64{5, 4, 3} {
			l.takes(n)
			b.now += 10
		}
		oldest := b.look.ZRange(b.Context(), l.permits(), 0, 0).Val()[0]
		l.gives(6)
		if got := fmt.Sprint(l.records(l.permits())); got != "[5 1]" {
			b.Fatalf("records %s, want [5 1]: 3 gone, 4 shrunk by 3", got)
		}
		if b.look.ZRange(b.Context(), l.permits(), 0, 0).Val()[0] != oldest {
			b.Fatal("the oldest record was touched")
		}
		l.has(14)
		l.keeps(20, l.value(), l.permits())
		l.gives(100) // more than is outstanding
		l.has(20)
		if n := b.look.ZCard(b.Context(), l.permits()).Val(); n != 0 {
			b.Fatalf("%d records left after all was released", n)
		}
	})
}

// B1, B3: a release by Java raises the value. Go does not credit the permits again
// when the records expire, and the value never ends above the rate.
func TestB1AfterAReleaseByJava(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second)
		l.takes(5)
		b.set(l.value(), 10) // Java: release(5)
		l.has(10)
		b.now++
		l.takes(10)
		b.now += 999
		l.refused(1, time.Millisecond)
		b.now++
		l.takes(10)
		l.refused(1, time.Second)
	})
}

// B2: with a value but no records, Redisson fails for ever.
func TestB2AnEmptySetMeansNothingIsOutstanding(t *testing.T) {
	for name, ask := range map[string]func(l *limiter){
		"acquire": func(l *limiter) { l.takes(3); l.keeps(5, l.value(), l.permits()) },
		"release": func(l *limiter) { l.gives(1); l.keeps(5, l.value(), l.permits()) },
		"peek":    func(l *limiter) { l.has(5); l.takes(5) },
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(b *bench) {
				l := b.limiter(overall, 5, time.Second)
				l.takes(4)
				b.want(b.look.Del(b.Context(), l.permits()).Err())
				ask(l)
			})
		})
	}
}

// B2: a release that empties the records leaves a full value to Java.
func TestB2AReleaseOfAllMakesItFull(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second)
		l.takes(5)
		b.set(l.value(), 3) // Java: a request that was sent twice
		l.gives(100)
		if v := b.look.Get(b.Context(), l.value()).Val(); v != "10" {
			b.Fatalf("value %s without records, want 10", v)
		}
	})
}

// B3, B6: availablePermits writes in Redisson.
func TestB3ReadingWritesNothing(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second)
		l.has(10)
		if n := b.look.Exists(b.Context(), l.value(), l.permits()).Val(); n != 0 {
			b.Fatal("reading an unused limiter has made keys")
		}
		l.takes(4)
		b.want(b.look.PExpire(b.Context(), l.value(), time.Hour).Err())
		b.now += 1000
		before := l.dump()
		l.has(10)
		if _, err := l.Peek(b.Context()); err != nil {
			b.Fatal(err)
		}
		if after := l.dump(); after != before {
			b.Fatalf("reading has written:\n%s\nbefore:\n%s", after, before)
		}
	})
}

func TestB3AnInflatedValueIsNotBelieved(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second)
		l.takes(4)
		b.set(l.value(), 15) // Java: release(5), then availablePermits one interval later
		l.has(6)
		l.takes(6)
		l.refused(1, time.Second)
		l.keeps(10, l.value(), l.permits())
	})
}

// B5: a client whose clock is ahead makes others wait for an interval at most, and
// for the tenth of it that clocks may differ by.
func TestB5ARecordOfTheFutureDelaysOneIntervalAtMost(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 5, time.Second)
		l.takes(1)
		b.now += 3_600_000
		l.takes(5)
		b.now -= 3_600_000
		l.refused(1, 1100*time.Millisecond)
		r, err := l.Peek(b.Context())
		if err != nil || r.ResetAfter != 1100*time.Millisecond {
			b.Fatalf("%+v, %v; want ResetAfter of an interval and a tenth", r, err)
		}
	})
}

// B5: without WithClock the time is the server's, whatever the clock of the process
// says.
func TestB5TimeIsTheServers(t *testing.T) {
	m := redistest.Mini(t)
	m.SetTime(time.UnixMilli(1_234_567_890_123))
	b := newBench(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m))
	l := &limiter{rratelimiter.New(b.rdb).RateLimiter(redistest.Name(t)), b}
	b.want(l.SetRate(t.Context(), overall, 1, time.Second))
	l.takes(1)
	if z := b.look.ZRangeWithScores(t.Context(), l.permits(), 0, -1).Val(); z[0].Score != 1_234_567_890_123 {
		t.Fatalf("record at %.0f, want the server's 1234567890123", z[0].Score)
	}
	m.SetTime(time.UnixMilli(1_234_567_891_122))
	l.refused(1, time.Millisecond)
	m.SetTime(time.UnixMilli(1_234_567_891_123))
	l.takes(1)
}

// B12: records of no permits, which Java leaves after tryAcquire(0), delay nobody.
func TestB12RecordsOfNothingDelayNobody(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 2, time.Second)
		l.record(b.now-500, "\x10aaaaaaaaaaaaaaaa\x00\x00\x00\x00")
		b.set(l.value(), 2)
		l.takes(2)
		l.refused(1, time.Second)
		b.now += 600 // the record of nothing has expired
		l.refused(1, 400*time.Millisecond)
		if got := fmt.Sprint(l.records(l.permits())); got != "[2]" {
			b.Fatalf("records %s, want the one of 2 alone", got)
		}
		b.now += 400
		l.takes(2)
	})
}

// B13: permits beyond 2^32 come back in full.
func TestB13PermitsBeyond32BitsComeBack(t *testing.T) {
	onBoth(t, func(b *bench) {
		const rate, permits = 1<<32 + 10, 1<<32 + 5
		l := b.limiter(overall, rate, time.Second)
		l.takes(permits)
		l.has(5)
		l.keeps(rate, l.value(), l.permits())
		b.now += 1000
		l.has(rate)
		l.takes(rate)
		l.gives(rate)
		l.has(rate)
	})
}

// B14: a value that is not an integer is rebuilt from the records.
func TestB14AValueThatIsNoNumberIsRebuilt(t *testing.T) {
	for _, value := range []string{"1e+17", "abc", "", "nan", "inf", "5.5", "0x", "99999999999999999999"} {
		t.Run(strconv.Quote(value), func(t *testing.T) {
			onBoth(t, func(b *bench) {
				l := b.limiter(overall, 5, time.Second)
				l.takes(2)
				b.set(l.value(), value)
				l.has(3)
				l.takes(1)
				l.keeps(5, l.value(), l.permits())
			})
		})
	}
}

// Lua reads this text as an integer, and INCRBY does not.
func TestB14AValueInAnotherNotation(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 1000, time.Second)
		b.set(l.value(), "1e3")
		l.takes(1)
		if v := b.look.Get(b.Context(), l.value()).Val(); v != "999" {
			b.Fatalf("value %s, want 999", v)
		}
	})
}

// B15: everything is checked before the first write.
func TestB15AHashThatCannotBeReadIsLeftAlone(t *testing.T) {
	for _, field := range []struct{ name, value string }{
		{"rate", "1.5"}, {"rate", "abc"}, {"rate", "1e17"}, {"interval", "1.5"}, {"interval", "x"},
		{"interval", "-1e300"},
		{"keepAliveTime", "soon"}, {"keepAliveTime", "1e300"},
	} {
		t.Run(field.name+"="+field.value, func(t *testing.T) {
			onBoth(t, func(b *bench) {
				l := b.limiter(overall, 5, time.Second)
				l.takes(1)
				b.want(b.look.HSet(b.Context(), l.Name(), field.name, field.value).Err())
				before := l.dump()
				_, err := l.TryAcquire(b.Context(), 1, 0)
				if !errors.Is(err, rratelimiter.ErrBadState) {
					b.Fatalf("acquire: %v, want ErrBadState", err)
				}
				wantText(b, err, field.name, field.value, l.Name())
				if err := l.Release(b.Context(), 1); !errors.Is(err, rratelimiter.ErrBadState) {
					b.Fatalf("release: %v, want ErrBadState", err)
				}
				if after := l.dump(); after != before {
					b.Fatalf("written:\n%s\nbefore:\n%s", after, before)
				}
			})
		})
	}
}

func TestB15AHashThatLacksAFieldIsNotSet(t *testing.T) {
	for _, field := range []string{"rate", "interval", "type"} {
		t.Run(field, func(t *testing.T) {
			onBoth(t, func(b *bench) {
				ctx := b.Context()
				l := b.limiter(overall, 5, time.Second)
				l.takes(5)
				b.want(b.look.HDel(ctx, l.Name(), field).Err())
				if _, err := l.TryAcquire(ctx, 1, 0); !errors.Is(err, rratelimiter.ErrNotInitialized) {
					b.Fatalf("acquire: %v", err)
				}
				if _, err := l.Config(ctx); !errors.Is(err, rratelimiter.ErrNotInitialized) {
					b.Fatalf("config: %v", err)
				}
				if ok, err := l.UpdateRate(ctx, overall, 7, time.Second); ok || err != nil {
					b.Fatalf("update: %v, %v", ok, err)
				}
				if ok, err := l.TrySetRate(ctx, overall, 7, 2*time.Second); !ok || err != nil {
					b.Fatalf("try set: %v, %v", ok, err)
				}
				c, err := l.Config(ctx)
				if want := (rratelimiter.Config{Type: overall, Rate: 7,
					Interval: 2 * time.Second}); c != want {
					b.Fatalf("%+v, %v; want %+v", c, err, want)
				}
				l.has(7)
			})
		})
	}
}

// B19: a lost value is rebuilt, not refilled.
func TestB19ALostValueIsRebuilt(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 10, time.Second)
		l.takes(7)
		b.now += 100
		b.want(b.look.Del(b.Context(), l.value()).Err())
		l.has(3)
		l.refused(4, 900*time.Millisecond)
		l.takes(3)
		l.keeps(10, l.value(), l.permits())
	})
}

// B21: -1 ms does not wait.
func TestB21ATimeoutBelowZeroDoesNotWait(t *testing.T) {
	onBoth(t, func(b *bench) {
		l := b.limiter(overall, 1, time.Hour)
		l.takes(1)
		for _, timeout := range []time.Duration{0, -1, -time.Millisecond, -time.Hour} {
			if ok, err := l.TryAcquire(b.Context(), 1, timeout); ok || err != nil {
				b.Fatal(timeout, ok, err)
			}
		}
	})
}

// B22: what Java has stored is read, also where it makes no sense as a limit.
func TestB22RateAndIntervalOfZeroByJava(t *testing.T) {
	onBoth(t, func(b *bench) {
		ctx := b.Context()
		l := b.limiter(overall, 0, 0)
		b.want(b.look.HSet(ctx, l.Name(), "rate", 0, "interval", 1000, "type", 0, "keepAliveTime", 0).Err())
		if _, err := l.TryAcquire(ctx, 1, time.Hour); !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
			b.Fatalf("rate 0: %v", err)
		}
		l.has(0)
		b.want(b.look.HSet(ctx, l.Name(), "rate", 3, "interval", 0).Err())
		for range 3 {
			l.takes(3) // no limit, as in Java
			b.now++
		}
	})
}

// Drift that others have left under load is gone after an interval, without a
// moment at which the limiter is empty.
func TestDriftIsRepairedUnderLoad(t *testing.T) {
	for _, wrong := range []string{"0", "9"} {
		t.Run("value "+wrong, func(t *testing.T) {
			onBoth(t, func(b *bench) {
				l := b.limiter(overall, 10, time.Second)
				for range 5 {
					l.takes(1)
					b.now += 100
				}
				b.set(l.value(), wrong) // 5 would be right
				for range 25 {
					if _, err := l.TryAcquire(b.Context(), 1, 0); err != nil {
						b.Fatal(err)
					}
					b.now += 100
				}
				l.takes(1)
				l.keeps(10, l.value(), l.permits())
			})
		})
	}
}
