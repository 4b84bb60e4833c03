package records_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// The specs of this file reproduce the faults of Redisson's limiter, by their
// number, and say what happens here instead.

// B1: a release raises the value and leaves the records, which are credited
// again when they expire.
func TestB1ReleaseTakesThePermitsOutOfTheRecords(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		l.Takes(5)
		l.Gives(5)
		b.Now++
		l.Takes(10)
		b.Now += 999 // the first 5 would expire now
		l.Refused(1, time.Millisecond)
		b.Now++
		l.Has(10)
	})
}

func TestB1ReleaseDoesNotCountTwiceTheOtherWayRound(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		for range 9 {
			l.Takes(1)
			l.Gives(1)
			b.Now++
		}
		b.Now += 1000
		l.Takes(1)
		l.Has(9)
		l.Keeps(10, l.ValueKey(), l.PermitsKey())
	})
}

func TestB1ReleaseComesOutOfTheNewestRecords(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 20, time.Second)
		for _, n := range []int64{5, 4, 3} {
			l.Takes(n)
			b.Now += 10
		}
		oldest := b.Look.ZRange(b.Context(), l.PermitsKey(), 0, 0).Val()[0]
		l.Gives(6)
		l.HasRecords(5, 1) // 3 gone, 4 shrunk by 3
		if b.Look.ZRange(b.Context(), l.PermitsKey(), 0, 0).Val()[0] != oldest {
			b.Fatal("the oldest record was touched")
		}
		l.Has(14)
		l.Keeps(20, l.ValueKey(), l.PermitsKey())
		l.Gives(100) // more than is outstanding
		l.Has(20)
		if n := b.Look.ZCard(b.Context(), l.PermitsKey()).Val(); n != 0 {
			b.Fatalf("%d records left after all was released", n)
		}
	})
}

// B1, B3: a release by Java raises the value. Go does not credit the permits again
// when the records expire, and the value never ends above the rate.
func TestB1AReleaseByJavaIsNotCreditedAgain(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		l.Takes(5)
		b.SetKey(l.ValueKey(), 10) // Java: release(5)
		l.Has(10)
		b.Now++
		l.Takes(10)
		b.Now += 999
		l.Refused(1, time.Millisecond)
		b.Now++
		l.Takes(10)
		l.Refused(1, time.Second)
	})
}

// B2: with a value but no records, Redisson fails for ever.
func TestB2AnEmptySetMeansNothingIsOutstanding(t *testing.T) {
	for name, ask := range map[string]func(l *Limiter){
		"acquire": func(l *Limiter) { l.Takes(3); l.Keeps(5, l.ValueKey(), l.PermitsKey()) },
		"release": func(l *Limiter) { l.Gives(1); l.Keeps(5, l.ValueKey(), l.PermitsKey()) },
		"peek":    func(l *Limiter) { l.Has(5); l.Takes(5) },
	} {
		t.Run(name, func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				l := b.NewLimiter(Overall, 5, time.Second)
				l.Takes(4)
				b.Want(b.Look.Del(b.Context(), l.PermitsKey()).Err())
				ask(l)
			})
		})
	}
}

// B2: a release that empties the records leaves a full value to Java.
func TestB2AReleaseOfAllMakesItFull(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		l.Takes(5)
		b.SetKey(l.ValueKey(), 3) // Java: a request that was sent twice
		l.Gives(100)
		l.HasValue("10")
	})
}

// B3, B6: availablePermits writes in Redisson.
func TestB3ReadingWritesNothing(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		l.Has(10)
		if n := b.Look.Exists(b.Context(), l.ValueKey(), l.PermitsKey()).Val(); n != 0 {
			b.Fatal("reading an unused limiter has made keys")
		}
		l.Takes(4)
		b.Want(b.Look.PExpire(b.Context(), l.ValueKey(), time.Hour).Err())
		b.Now += 1000
		before := l.Dump()
		l.Has(10)
		b.Want(ErrOf(l.Peek(b.Context())))
		l.Unchanged(before)
	})
}

func TestB3AnInflatedValueIsNotBelieved(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		l.Takes(4)
		b.SetKey(l.ValueKey(), 15) // Java: release(5), then availablePermits one interval later
		l.Has(6)
		l.Takes(6)
		l.Refused(1, time.Second)
		l.Keeps(10, l.ValueKey(), l.PermitsKey())
	})
}

// B5: a client whose clock is ahead makes other clients wait for an interval at most, and
// for the tenth of it that clocks may differ by.
func TestB5ARecordOfTheFutureDelaysOneIntervalAtMost(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 5, time.Second)
		l.Takes(1)
		b.Now += 3_600_000
		l.Takes(5)
		b.Now -= 3_600_000
		l.Refused(1, 1100*time.Millisecond)
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
	b := NewBench(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m))
	l := b.Wrap(rratelimiter.New(b.RDB).RateLimiter(redistest.Name(t)))
	b.Want(l.SetRate(t.Context(), Overall, 1, time.Second))
	l.Takes(1)
	z := b.Look.ZRangeWithScores(t.Context(), l.PermitsKey(), 0, -1).Val()
	if z[0].Score != 1_234_567_890_123 {
		t.Fatalf("record at %.0f, want the server's 1234567890123", z[0].Score)
	}
	m.SetTime(time.UnixMilli(1_234_567_891_122))
	l.Refused(1, time.Millisecond)
	m.SetTime(time.UnixMilli(1_234_567_891_123))
	l.Takes(1)
}

// B12: records of no permits, which Java leaves after tryAcquire(0), delay no caller.
func TestB12EmptyRecordsDelayNoCaller(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 2, time.Second)
		l.Record(b.Now-500, "\x10aaaaaaaaaaaaaaaa\x00\x00\x00\x00")
		b.SetKey(l.ValueKey(), 2)
		l.Takes(2)
		l.Refused(1, time.Second)
		b.Now += 600 // the record of nothing has expired
		l.Refused(1, 400*time.Millisecond)
		l.HasRecords(2)
		b.Now += 400
		l.Takes(2)
	})
}

// B14: a value that is not an integer is rebuilt from the records.
func TestB14AValueThatIsNoNumberIsRebuilt(t *testing.T) {
	for _, value := range []string{"1e+17", "abc", "", "nan", "inf", "5.5", "0x", "99999999999999999999",
		"-99999999999999999999"} {
		t.Run(strconv.Quote(value), func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				l := b.NewLimiter(Overall, 5, time.Second)
				l.Takes(2)
				b.SetKey(l.ValueKey(), value)
				l.Has(3)
				l.Takes(1)
				l.Keeps(5, l.ValueKey(), l.PermitsKey())
			})
		})
	}
}

// Lua reads this text as an integer, and INCRBY does not.
func TestB14AValueInAnotherNotationIsRebuilt(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 1000, time.Second)
		b.SetKey(l.ValueKey(), "1e3")
		l.Takes(1)
		l.HasValue("999")
	})
}

// B15: everything is checked before the first write.
func TestB15AHashThatCannotBeReadIsLeftAlone(t *testing.T) {
	for _, field := range []struct{ name, value string }{
		{"rate", "1.5"}, {"rate", "abc"}, {"rate", "1e17"}, {"interval", "1.5"}, {"interval", "x"},
		{"interval", "-1e300"}, {"interval", "1e300"}, {"keepAliveTime", "1.5"},
		{"keepAliveTime", "soon"}, {"keepAliveTime", "1e300"},
	} {
		t.Run(field.name+"="+field.value, func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				l := b.NewLimiter(Overall, 5, time.Second)
				l.Takes(1)
				b.Want(b.Look.HSet(b.Context(), l.Name(), field.name, field.value).Err())
				before := l.Dump()
				_, err := l.TryAcquire(b.Context(), 1, 0)
				WantErr(b, err, rratelimiter.ErrBadState, field.name, field.value, l.Name())
				WantErr(b, l.Release(b.Context(), 1), rratelimiter.ErrBadState)
				l.Unchanged(before)
			})
		})
	}
}

func TestB15AHashThatLacksAFieldIsNotSet(t *testing.T) {
	for _, field := range []string{"rate", "interval", "type"} {
		t.Run(field, func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				ctx := b.Context()
				l := b.NewLimiter(Overall, 5, time.Second)
				l.Takes(5)
				b.Want(b.Look.HDel(ctx, l.Name(), field).Err())
				WantErr(b, ErrOf(l.TryAcquire(ctx, 1, 0)), rratelimiter.ErrNotInitialized)
				WantErr(b, ErrOf(l.Config(ctx)), rratelimiter.ErrNotInitialized)
				b.Want(No(l.UpdateRate(ctx, Overall, 7, time.Second)))
				b.Want(Yes(l.TrySetRate(ctx, Overall, 7, 2*time.Second)))
				c, err := l.Config(ctx)
				if want := (rratelimiter.Config{Type: Overall, Rate: 7,
					Interval: 2 * time.Second}); c != want {
					b.Fatalf("%+v, %v; want %+v", c, err, want)
				}
				l.Has(7)
			})
		})
	}
}

// B19: a lost value is rebuilt, not refilled.
func TestB19ALostValueIsRebuilt(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 10, time.Second)
		l.Takes(7)
		b.Now += 100
		b.Want(b.Look.Del(b.Context(), l.ValueKey()).Err())
		l.Has(3)
		l.Refused(4, 900*time.Millisecond)
		l.Takes(3)
		l.Keeps(10, l.ValueKey(), l.PermitsKey())
	})
}

// B21: -1 ms does not wait.
func TestB21ATimeoutBelowZeroDoesNotWait(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.NewLimiter(Overall, 1, time.Hour)
		l.Takes(1)
		for _, timeout := range []time.Duration{0, -1, -time.Millisecond, -time.Hour} {
			if ok, err := l.TryAcquire(b.Context(), 1, timeout); ok || err != nil {
				b.Fatal(timeout, ok, err)
			}
		}
	})
}

// B22: what Java has stored is read, also where it makes no sense as a limit.
func TestB22RateAndIntervalOfZeroByJavaAreRead(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		ctx := b.Context()
		l := b.NewLimiter(Overall, 0, 0)
		b.Want(b.Look.HSet(ctx, l.Name(), "rate", 0, "interval", 1000, "type", 0, "keepAliveTime", 0).Err())
		WantErr(b, ErrOf(l.TryAcquire(ctx, 1, time.Hour)), rratelimiter.ErrPermitsExceedRate)
		l.Has(0)
		b.Want(b.Look.HSet(ctx, l.Name(), "rate", 3, "interval", 0).Err())
		for range 3 {
			l.Takes(3) // no limit, as in Java
			b.Now++
		}
	})
}

// Drift that Java has left under load is gone after an interval, without a
// moment at which the limiter is empty.
func TestDriftIsRepairedUnderLoad(t *testing.T) {
	for _, wrong := range []string{"0", "9"} {
		t.Run("value "+wrong, func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				l := b.NewLimiter(Overall, 10, time.Second)
				for range 5 {
					l.Takes(1)
					b.Now += 100
				}
				b.SetKey(l.ValueKey(), wrong) // 5 would be right
				for range 25 {
					b.Want(ErrOf(l.TryAcquire(b.Context(), 1, 0)))
					b.Now += 100
				}
				l.Takes(1)
				l.Keeps(10, l.ValueKey(), l.PermitsKey())
			})
		})
	}
}
