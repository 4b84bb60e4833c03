package groups_test

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// A trio is a Group of three limiters, and each of them.
type trio struct {
	*Bench
	*rratelimiter.Group
	each [3]*Limiter
}

// newTrio returns limiters of these rates, with intervals of 1 s, 1 min, 1 h.
func newTrio(b *Bench, rates ...int64) *trio {
	b.Helper()
	tr := &trio{Bench: b}
	for i, interval := range []time.Duration{time.Second, time.Minute, time.Hour} {
		tr.each[i] = b.NewLimiter(Overall, rates[i], interval)
	}
	tr.Group = b.Client.All(tr.each[0].RateLimiter, tr.each[1].RateLimiter, tr.each[2].RateLimiter)
	return tr
}

// left expects permits in each limiter, and value + records = rate in Redis.
func (tr *trio) left(want ...int64) {
	tr.Helper()
	for i, l := range tr.each {
		l.Has(want[i])
		c, err := l.Config(tr.Context())
		tr.Want(err)
		if tr.Look.Exists(tr.Context(), l.ValueKey()).Val() > 0 {
			l.Keeps(c.Rate, l.ValueKey(), l.PermitsKey())
		}
	}
}

// All or none: a call takes from each limiter, or from none where one refuses.
func TestAllTakesFromAllOrNone(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		tr := newTrio(b, 10, 5, 20)
		take := func(want bool, n int64, amounts ...int64) {
			b.Helper()
			ok, err := tr.Amounts(amounts...).TryAcquire(b.Context(), n, 0)
			if ok != want || err != nil {
				b.Fatalf("%d times %d: %v, %v; want %v", n, amounts, ok, err, want)
			}
		}
		take(true, 1, 1, 1, 1)
		tr.left(9, 4, 19)
		take(true, 2, 3, 1, 4)
		tr.left(3, 2, 11)
		take(false, 1, 1, 3, 1)
		take(false, 1, 4, 1, 1)
		take(false, 1, 1, 1, 12)
		tr.left(3, 2, 11)
		b.Now += 1000
		tr.left(10, 2, 11)
		take(true, 1, 10, 2, 11)
		tr.left(0, 0, 0)
		b.Want(tr.Release(b.Context(), 0))
		tr.left(0, 0, 0)
		b.Want(tr.Amounts(10, 2, 11).Release(b.Context(), 1))
		tr.left(10, 2, 11)
	})
}

// The Result is that of the limiter that binds, with one Result for each.
func TestAllTellsWhichLimitBinds(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		tr := newTrio(b, 4, 10, 100)
		name := func(i int) string { return tr.each[i].Name() }
		r, err := tr.Allow(b.Context(), 3)
		b.Want(err)
		want := rratelimiter.Result{Allowed: true, Name: name(0), Limit: 4, Interval: time.Second,
			Remaining: 1, ResetAfter: time.Second}
		want.Each = []rratelimiter.Result{want,
			{Allowed: true, Name: name(1), Limit: 10, Interval: time.Minute, Remaining: 7,
				ResetAfter: time.Minute},
			{Allowed: true, Name: name(2), Limit: 100, Interval: time.Hour, Remaining: 97,
				ResetAfter: time.Hour}}
		if !reflect.DeepEqual(r, want) {
			b.Errorf("granted:\n%+v, want\n%+v", r, want)
		}
		b.Now += 400
		r, err = tr.Amounts(2, 8, 1).Allow(b.Context(), 1)
		b.Want(err)
		want = rratelimiter.Result{Name: name(1), Limit: 10, Interval: time.Minute, Remaining: 7,
			RetryAfter: 59600 * time.Millisecond, ResetAfter: 59600 * time.Millisecond}
		second := rratelimiter.Result{Name: name(0), Limit: 4, Interval: time.Second, Remaining: 1,
			RetryAfter: 600 * time.Millisecond, ResetAfter: 600 * time.Millisecond}
		third := rratelimiter.Result{Allowed: true, Name: name(2), Limit: 100, Interval: time.Hour,
			Remaining: 97, ResetAfter: time.Hour - 400*time.Millisecond}
		want.Each = []rratelimiter.Result{second, want, third}
		if !reflect.DeepEqual(r, want) {
			b.Errorf("refused:\n%+v, want\n%+v", r, want)
		}
	})
}

// One script call, and records like those of any other call: Java sees ordinary limiters.
func TestAllIsOneCall(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		tr := newTrio(b, 10, 10, 10)
		b.Want(tr.Acquire(b.Context(), 1)) // the script is known
		if n := b.Sent(func() { b.Want(tr.Amounts(1, 2, 3).Acquire(b.Context(), 1)) }); n != 1 {
			b.Errorf("%d commands", n)
		}
		for i, l := range tr.each {
			records := l.Records(l.PermitsKey())
			slices.Sort(records)
			if !slices.Equal(records, []int64{1, int64(i) + 1}) {
				b.Errorf("records of %d: %v", i, records)
			}
			for _, m := range l.Members() {
				if len(m) != 21 || m[0] != 16 {
					b.Errorf("record %q", m)
				}
			}
			if n := len(l.Fields()); n != 1 {
				b.Errorf("%d sessions after calls one by one, want 1", n)
			}
		}
	})
}

// A limiter is healed for itself: heal.lua for another one does not count.
func TestEachLimiterOfAGroupIsHealed(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		tr := newTrio(b, 20000, 20000, 20000)
		for _, l := range tr.each {
			l.Fill(b.Now-500, 100, 5000, 3)
		}
		if ok, err := tr.Amounts(5000, 5000, 5000).TryAcquire(b.Context(), 1, 0); !ok {
			b.Errorf("refused, %v", err)
		}
		tr.left(0, 0, 0)
	})
}

// Each number of limiters, of either type, has its script, and each record format its records.
func TestAllTakesOneToEightLimiters(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, n := range []int{1, 2, 3, 4, 8} {
			for _, f := range Formats {
				c := b.NewClient(rratelimiter.WithRedisson(f.Since))
				var limiters []*rratelimiter.RateLimiter
				for i := range n {
					typ := []rratelimiter.RateType{Overall, PerClient}[i%2]
					limiters = append(limiters, c.RateLimiter(b.NewLimiter(typ, 2, time.Minute).Name()))
				}
				g := c.All(limiters...)
				for i := range 3 {
					r, err := g.Allow(b.Context(), 1)
					if err != nil || r.Allowed != (i < 2) || len(r.Each) != n {
						b.Fatalf("%d limiters, %v: %+v, %v", n, f, r, err)
					}
				}
				for _, l := range limiters {
					if r, err := l.Peek(b.Context()); err != nil || r.Remaining != 0 {
						b.Errorf("%d limiters, %v: %+v, %v", n, f, r, err)
					}
				}
			}
		}
	})
}

// Limits of each client and limits of a Keyed may also be members.
func TestAllTakesLimitersOfDifferentKinds(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		mine, slow := b.NewLimiter(PerClient, 3, time.Minute), b.NewLimiter(Overall, 9, time.Minute)
		c := b.NewClient()
		keyed := c.Keyed(redistest.Name(b), 2, time.Minute)
		g := c.All(c.RateLimiter(mine.Name()), c.RateLimiter(slow.Name()), keyed.For("42"))
		for i, want := range []bool{true, true, false} {
			r, err := g.Allow(b.Context(), 1)
			if err != nil || r.Allowed != want {
				b.Fatalf("%d: %+v, %v", i, r, err)
			}
			if !want && !strings.HasSuffix(r.Name, ":{42}") {
				b.Errorf("%s binds", r.Name)
			}
		}
		if r, err := c.RateLimiter(mine.Name()).Peek(b.Context()); err != nil || r.Remaining != 1 {
			b.Errorf("own: %+v, %v", r, err)
		}
		if r, err := mine.Peek(b.Context()); err != nil || r.Remaining != 3 {
			b.Errorf("that of another client: %+v, %v", r, err)
		}
	})
}

// The error has the name of the member that is wrong, and nothing is taken from any.
func TestAllNamesTheOneThatIsWrong(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		good := b.NewLimiter(Overall, 5, time.Minute)
		for what, spec := range map[string]struct {
			spoils func(l *Limiter) error
			is     error
			text   []string
		}{
			"no rate": {func(l *Limiter) error { return l.Look.HDel(l.Context(), l.Name(), "rate").Err() },
				rratelimiter.ErrNotInitialized, nil},
			"another type of key": {func(l *Limiter) error {
				return l.Look.LPush(l.Context(), l.PermitsKey(), "x").Err()
			}, rratelimiter.ErrBadState, []string{":permits is a list, must be a zset"}},
			"a field that is no number": {func(l *Limiter) error {
				return l.Look.HSet(l.Context(), l.Name(), "interval", "soon").Err()
			}, rratelimiter.ErrBadState, []string{"interval", `"soon"`}},
			"a rate too small": {func(l *Limiter) error {
				return l.SetRate(l.Context(), Overall, 2, time.Minute)
			}, rratelimiter.ErrPermitsExceedRate, []string{"permits is 3", "at most 2"}},
		} {
			b.Run(what, func(t *testing.T) {
				bad := b.NewLimiter(Overall, 5, time.Minute)
				NoError(t, spec.spoils(bad))
				for _, g := range []*rratelimiter.Group{
					b.Client.All(good.RateLimiter, bad.RateLimiter),
					b.Client.All(bad.RateLimiter, good.RateLimiter),
				} {
					for _, err := range []error{
						ErrOf(g.Allow(t.Context(), 3)), ErrOf(g.TryAcquire(t.Context(), 3, time.Minute)),
						g.Acquire(t.Context(), 3),
					} {
						WantErr(t, err, spec.is, append(spec.text, bad.Name())...)
					}
				}
				if n := good.Size(); n != 0 {
					t.Errorf("%d records in the good one", n)
				}
			})
		}
	})
}

func TestAllRefusesBadArguments(t *testing.T) {
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	c := b.Client
	a := c.RateLimiter("a")
	pair := c.All(a, c.RateLimiter("b"))
	nine := make([]*rratelimiter.RateLimiter, 9)
	for i := range nine {
		nine[i] = c.RateLimiter(strconv.Itoa(i))
	}
	withOther := c.All(a, b.NewClient().RateLimiter("b"))
	tooMuch := `for "b": permits is 3 times the amount 549755813888, must be at most 1099511627776`
	for want, g := range map[string]*rratelimiter.Group{
		"the number of limiters is 0, must be between 1 and 8": c.All(),
		"the number of limiters is 9, must be between 1 and 8": c.All(nine...),
		"limiters[1] is nil":                                   c.All(a, nil),
		`limiters[1] is "a", must be there once`:               c.All(a, c.RateLimiter("a")),
		`limiters[1] is "b", must be of the same Client`:       withOther,
		`name is "", must not be empty`:                        c.All(a, c.RateLimiter("")),
		"the number of amounts is 1, must be 2":                pair.Amounts(1),
		"amounts[1] is 0, must be between 1 and 1099511627776": pair.Amounts(1, 0),
		tooMuch:      pair.Amounts(1, 1<<39),
		"rdb is nil": rratelimiter.New(nil).All(),
	} {
		for _, err := range []error{
			ErrOf(g.Allow(t.Context(), 3)), ErrOf(g.TryAcquire(t.Context(), 3, time.Hour)),
			g.Acquire(t.Context(), 3), g.Release(t.Context(), 3),
		} {
			if !errors.Is(err, rratelimiter.ErrInvalidArgument) {
				t.Errorf("%s: %v", want, err)
			}
			WantText(t, err, want)
		}
	}
	for _, n := range []int64{0, -1, 1<<40 + 1} {
		if err := pair.Acquire(t.Context(), n); !errors.Is(err, rratelimiter.ErrInvalidArgument) {
			t.Errorf("%d permits: %v", n, err)
		}
	}
	if keys := b.RDB.Keys(t.Context(), "*").Val(); len(keys) != 0 {
		t.Errorf("%q was written", keys)
	}
}

func TestAllNeedsOneHashTagOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	c := NewClient(t, cluster.Client(t))
	tag := "{" + redistest.Name(t) + "}"
	var limiters []*rratelimiter.RateLimiter
	for i, rate := range []int64{3, 2} {
		l := c.RateLimiter(tag + ":" + strconv.Itoa(i))
		NoError(t, l.SetRate(t.Context(), Overall, rate, time.Minute))
		limiters = append(limiters, l)
	}
	users := c.Keyed(tag+":user", 1, time.Minute)
	g := c.All(limiters[0], limiters[1], users.For("42"))
	NoError(t, Yes(g.TryAcquire(t.Context(), 1, 0)))
	NoError(t, No(g.TryAcquire(t.Context(), 1, 0)))
	other := c.All(limiters[0], c.RateLimiter("other"))
	err := other.Acquire(t.Context(), 1)
	WantErr(t, err, rratelimiter.ErrInvalidArgument)
	WantText(t, err, `limiters[1] is "other"`, "hash tag of", tag, "different slots")
}

// A call of a Group, a reservation or a charge leaves the value of a PER_CLIENT limiter right, also next to
// more records than a call may sum. An estimate by some of them could refuse permits that are free.
func TestAPerClientValueStaysRightNextToManyRecords(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		const rate, large, small = 100_000, 100, 5900 // an estimate reads all large ones: it is too low
		l := b.NewLimiter(PerClient, rate, time.Hour)
		l.Takes(1)
		value, permits := l.ValueKey()+":"+b.Client.ID(), l.PermitsKey()+":"+b.Client.ID()
		b.FillKey(permits, b.Now-9000, 1, large, 100)
		b.FillKey(permits, b.Now-8000, 1, small, 1)
		b.SetKey(value, rate-1-large*100-small)
		l.Keeps(rate, value, permits)
		group := b.Client.All(l.RateLimiter, b.NewLimiter(Overall, rate, time.Hour).RateLimiter)
		for i := range int64(60) {
			b.Now++
			r, err := l.Reserve(b.Context(), 5, 0)
			b.Want(err)
			l.Keeps(rate, value, permits)
			b.Want(r.Settle(b.Context(), i%9))
			l.Keeps(rate, value, permits)
			b.Want(ErrOf(l.Charge(b.Context(), 1+i%7)))
			l.Keeps(rate, value, permits)
			b.Want(ErrOf(group.TryAcquire(b.Context(), 1+i%7, 0)))
			l.Keeps(rate, value, permits)
		}
	})
}

// A charge of a Group heals the member that is not plain, whichever it is.
func TestAChargeHealsTheMemberThatIsNotPlain(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		const rate, expired = 5010, 5000
		plain, other := b.NewLimiter(Overall, 10, time.Hour), b.NewLimiter(Overall, rate, time.Second)
		other.Fill(b.Now-2000, 100, expired, 1)
		b.SetKey(other.ValueKey(), rate-expired)
		r, err := b.Client.All(plain.RateLimiter, other.RateLimiter).Charge(b.Context(), 3)
		b.Want(err)
		if got := r.Each[1].Remaining; got != rate-3 {
			t.Errorf("%d permits are left, want %d", got, rate-3)
		}
		other.Keeps(rate, other.ValueKey(), other.PermitsKey())
	})
}
