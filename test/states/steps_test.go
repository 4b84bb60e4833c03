package states_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A play is one row under way, on one server and in one way to call.
type play struct {
	*Limiter
	way     way
	calls   caller
	typ     rratelimiter.RateType
	rate    int64
	unit    int64 // ms that a ms of the row stands for
	writers byte  // records of Java so far
	another *play // of another Client
	open    map[string]*rratelimiter.Reservation
	steps   map[string]step // nil: those of Go
}

// pair returns the keys of the value and the records.
func (p *play) pair() (value, permits string) {
	if p.typ == PerClient {
		return p.ValueKey() + ":" + p.Client.ID(), p.PermitsKey() + ":" + p.Client.ID()
	}
	return p.ValueKey(), p.PermitsKey()
}

// A caller is what a row calls: a limiter, a Group, a reservation.
type caller interface {
	Allow(ctx context.Context, permits int64) (rratelimiter.Result, error)
	Release(ctx context.Context, permits int64) error
}

// A step does what a word of a row says.
type step func(p *play, args []string)

// steps are the words of a row; testdata/states.txt says what they mean.
var steps = map[string]step{
	"rate": func(p *play, args []string) {
		typ, rate, interval, opts := rateOf(args)
		p.typ, p.rate = typ, rate
		p.Want(p.SetRate(p.Context(), typ, rate, interval, opts...))
	},
	"try": func(p *play, args []string) {
		typ, rate, interval, opts := rateOf(args)
		p.sets(args, func() (bool, error) { return p.TrySetRate(p.Context(), typ, rate, interval, opts...) })
	},
	"update": func(p *play, args []string) {
		typ, rate, interval, opts := rateOf(args)
		p.sets(args, func() (bool, error) { return p.UpdateRate(p.Context(), typ, rate, interval, opts...) })
	},
	"given": func(p *play, args []string) {
		_, rate, interval, opts := rateOf(args)
		p.Limiter, p.rate = p.Wrap(p.WithRate(rate, interval, opts...)), rate
		p.calls = p.way.calls(p.Limiter)
	},
	"config": func(p *play, args []string) {
		typ, rate, interval, _ := rateOf(args)
		want := rratelimiter.Config{Type: typ, Rate: rate, Interval: interval}
		if got, err := p.Config(p.Context()); err != nil || got != want {
			p.Fatalf("%+v, %v; want %+v", got, err, want)
		}
	},
	"own":    func(*play, []string) {},
	"java":   func(*play, []string) {},
	"served": func(*play, []string) {},
	"delete": func(p *play, _ []string) {
		p.Want(Yes(p.Delete(p.Context())))
		p.hasKeys(0)
	},

	"+": func(p *play, args []string) {
		if p.Now += p.ms(args[0]); p.Mini != nil {
			p.Mini.SetTime(time.UnixMilli(p.Now))
		}
	},

	"take": func(p *play, args []string) {
		for range p.times(args) {
			p.allows(p.whole(args[0]), 0)
		}
	},
	"no": func(p *play, args []string) {
		atMost, ends := strings.CutPrefix(args[1], "<")
		wait := p.span(atMost)
		if !ends {
			p.allows(p.whole(args[0]), wait)
		} else if r, err := p.calls.Allow(p.Context(), p.whole(args[0])); r.Allowed || err != nil ||
			r.RetryAfter <= 0 || r.RetryAfter > wait {
			p.Fatalf("%+v, %v, want a wait of up to %v", r, err, wait)
		}
	},
	"ends":     func(p *play, args []string) { p.ends(args, p.Expire) },
	"ifset":    func(p *play, args []string) { p.ends(args, p.ExpireIfSet) },
	"ifunset":  func(p *play, args []string) { p.ends(args, p.ExpireIfNotSet) },
	"iflater":  func(p *play, args []string) { p.ends(args, p.ExpireIfGreater) },
	"ifsooner": func(p *play, args []string) { p.ends(args, p.ExpireIfLess) },
	"endless": func(p *play, args []string) {
		p.ends(append([]string{"0s"}, args...), func(ctx context.Context, _ time.Duration) (bool, error) {
			return p.ClearExpire(ctx)
		})
	},
	"exceeds": func(p *play, args []string) {
		p.fails(p.whole(args[0]), rratelimiter.ErrPermitsExceedRate)
	},
	"unset": func(p *play, _ []string) {
		p.fails(1, rratelimiter.ErrNotInitialized)
		WantErr(p, ErrOf(p.Config(p.Context())), rratelimiter.ErrNotInitialized)
	},
	"bad": func(p *play, args []string) {
		p.fails(1, rratelimiter.ErrBadState, args...)
		p.leaves(func() {
			WantErr(p, p.calls.Release(p.Context(), 1), rratelimiter.ErrBadState, args...)
			WantErr(p, ErrOf(p.AvailablePermits(p.Context())), rratelimiter.ErrBadState, args...)
			for _, r := range p.open {
				WantErr(p, r.Settle(p.Context(), 0), rratelimiter.ErrBadState, args...)
			}
		})
	},
	"give": func(p *play, args []string) {
		for range p.times(args) {
			p.Want(p.calls.Release(p.Context(), p.whole(args[0])))
		}
	},
	"reserve": func(p *play, args []string) {
		r, result, err := p.calls.(reserver).TryReserve(p.Context(), p.whole(args[1]))
		if p.Want(err); r == nil || !result.Allowed {
			p.Fatalf("%v, %+v", r, result)
		}
		p.open[args[0]] = r
	},
	"settle": func(p *play, args []string) {
		r := p.open[args[0]]
		if len(args) > 2 { // elsewhere
			var err error
			r, err = p.NewClient().Reservation(r.ID())
			p.Want(err)
		}
		p.Want(r.Settle(p.Context(), p.whole(args[1])))
	},
	"charge": func(p *play, args []string) {
		r, err := p.calls.(reserver).Charge(p.Context(), p.whole(args[0]))
		if p.Want(err); !r.Allowed || r.Debt != p.whole(args[2]) {
			p.Fatalf("%+v, want a debt of %s", r, args[2])
		}
	},
	"owes": func(p *play, args []string) {
		if r, err := p.Peek(p.Context()); err != nil || r.Debt != p.whole(args[0]) {
			p.Fatalf("%+v, %v; want a debt of %s", r, err, args[0])
		}
	},
	"repair": func(p *play, args []string) {
		want := make([]int64, 4)
		for i, n := range args {
			want[i] = p.whole(n)
		}
		got, err := p.Repair(p.Context())
		if p.Want(err); !slices.Equal(want, []int64{got.Records, got.Rewritten, got.Dropped, got.Drift}) {
			p.Fatalf("%+v, want %v", got, want)
		}
	},
	"left": func(p *play, args []string) { p.leaves(func() { p.Has(p.whole(args[0])) }) },
	"reset": func(p *play, args []string) {
		p.leaves(func() {
			r, err := p.Peek(p.Context())
			if p.Want(err); r.ResetAfter.String() != args[0] {
				p.Fatalf("%+v, want %s until all are back", r, args[0])
			}
		})
	},

	"hash!": func(p *play, args []string) {
		if p.replaces(p.Name(), args) {
			return
		}
		if args[1] == "-" {
			p.Want(p.Look.HDel(p.Context(), p.Name(), args[0]).Err())
			return
		}
		p.Want(p.Look.HSet(p.Context(), p.Name(), args[0], strings.Join(args[1:], " ")).Err())
	},
	"value!": func(p *play, args []string) {
		key, _ := p.pair()
		if p.replaces(key, args) {
			return
		}
		p.SetKey(key, strings.Trim(args[0], `"`))
	},
	"record!": func(p *play, args []string) {
		_, key := p.pair()
		if p.replaces(key, args) {
			return
		}
		ahead, err := strconv.ParseFloat(append(args, "0")[1], 64)
		p.Want(err)
		p.writers++
		p.Want(p.Look.ZAdd(p.Context(), key, redis.Z{Score: float64(p.Now) + ahead*float64(max(p.unit, 1)),
			Member: fmt.Sprintf("\x10%15d%c%s", p.writers, 'j',
				binary.LittleEndian.AppendUint32(nil, uint32(p.whole(args[0]))))}).Err())
	},

	"many": func(p *play, args []string) {
		numbers := []int64{0, 0, 0, 1}
		for i, n := range args {
			numbers[i] = p.whole(n)
		}
		p.Fill(p.Now+numbers[2], int(numbers[1]), int(numbers[0]), byte(numbers[3]))
	},
	"value": func(p *play, args []string) {
		key, _ := p.pair()
		value, err := p.Look.Get(p.Context(), key).Result()
		if errors.Is(err, redis.Nil) {
			value = "-"
		}
		if value != args[0] {
			p.Fatalf("value %s, want %s", value, args[0])
		}
	},
	"records": func(p *play, args []string) {
		var want []int64
		for _, n := range args {
			if n != "-" {
				want = append(want, p.whole(n))
			}
		}
		_, key := p.pair()
		if got := p.Records(key); !slices.Equal(got, want) {
			p.Fatalf("records of %v permits, want %v", got, want)
		}
	},
	"ttl": func(p *play, args []string) {
		least, most := time.Duration(-1), time.Duration(-1)
		if args[0] != "-" {
			least, most = p.span(args[0]), p.span(args[1])
		}
		keys := []string{p.Name()}
		// The pair of a Client has a life of its own.
		if value, permits := p.pair(); most > 0 || p.typ == Overall {
			keys = append(keys, value, permits)
		}
		if len(args) > 2 { // empty
			keys = keys[:2]
		}
		p.Lives(least, most, keys...)
	},
	"keys": func(p *play, args []string) { p.hasKeys(p.whole(args[0])) },
	"whole": func(p *play, _ []string) {
		value, permits := p.pair()
		p.Keeps(p.rate, value, permits)
	},
}

func (p *play) does(row string) {
	p.Helper()
	all := p.steps
	if all == nil {
		all = steps
	}
	for step := range Steps(p.T, row) {
		words, by := strings.Fields(step), p
		switch words[0] {
		case "other":
			words, by = words[1:], p.byAnother()
		case "group":
			grouped := *p
			words, by, grouped.calls = words[1:], &grouped, inGroup(p.Limiter)
		case "twin":
			twin := *p
			twin.calls = p.With(rratelimiter.WithID(p.Client.ID())).RateLimiter
			words, by = words[1:], &twin
		}
		do := all[words[0]]
		if ms, ok := strings.CutPrefix(words[0], "+"); ok {
			do, words = all["+"], []string{"+", ms}
		}
		if do == nil {
			p.Fatalf("no such step")
		}
		do(by, words[1:])
		p.typ, p.rate = by.typ, by.rate
	}
}

func (p *play) byAnother() *play {
	if p.another == nil {
		l := p.With()
		p.another = &play{Limiter: l, way: way{calls: alone}, calls: l.RateLimiter}
	}
	p.another.typ, p.another.rate = p.typ, p.rate
	return p.another
}

// replaces deletes a key or makes it a list, where a step says so.
func (p *play) replaces(key string, args []string) bool {
	p.Helper()
	if len(args) > 1 || args[0] != "-" && args[0] != "list" {
		return false
	}
	p.Want(p.Look.Del(p.Context(), key).Err())
	if args[0] == "list" {
		p.Want(p.Look.RPush(p.Context(), key, "x").Err())
	}
	return true
}

// hasKeys expects so many keys of the limiter, those of this Client among them.
func (p *play) hasKeys(want int64) {
	p.Helper()
	all := p.Keys()
	for _, key := range p.Keys()[1:] {
		all = append(all, key+":"+p.Client.ID())
	}
	if n := p.Look.Exists(p.Context(), all...).Val(); n != want {
		p.Fatalf("%d keys, want %d", n, want)
	}
}

func (p *play) span(word string) time.Duration {
	p.Helper()
	d, err := time.ParseDuration(word)
	p.Want(err)
	return d
}

// ends expects a call to set the time to live, or to return false if the last word is no.
func (p *play) ends(args []string, call func(ctx context.Context, d time.Duration) (bool, error)) {
	p.Helper()
	expect := Yes
	if args[len(args)-1] == "no" {
		expect = No
	}
	p.Want(expect(call(p.Context(), p.span(args[0]))))
}

// sets expects a call to set a rate, or to return false and to write nothing if the last word is no.
func (p *play) sets(args []string, call func() (bool, error)) {
	p.Helper()
	if args[len(args)-1] == "no" {
		p.leaves(func() { p.Want(No(call())) })
		return
	}
	p.Want(Yes(call()))
	p.typ, p.rate, _, _ = rateOf(args)
}

// allows asks for permits, which are granted if wait is 0, and otherwise refused for that time.
func (p *play) allows(permits int64, wait time.Duration) {
	p.Helper()
	r, err := p.calls.Allow(p.Context(), permits)
	if p.Want(err); r.Allowed != (wait == 0) || r.RetryAfter != wait {
		p.Fatalf("%d permits at %d: %+v, want a wait of %v", permits, p.Now, r, wait)
	}
}

// fails expects an error of a request that changes nothing.
func (p *play) fails(permits int64, want error, parts ...string) {
	p.Helper()
	p.leaves(func() { WantErr(p, ErrOf(p.calls.Allow(p.Context(), permits)), want, parts...) })
}

// leaves expects a call to write nothing.
func (p *play) leaves(call func()) {
	p.Helper()
	before := p.Dump()
	call()
	if after := p.Dump(); after != before {
		p.Fatalf("written:\n%s\nbefore:\n%s", after, before)
	}
}

func (p *play) whole(word string) int64 {
	p.Helper()
	n, err := strconv.ParseInt(word, 10, 64)
	p.Want(err)
	return n
}

// ms reads a time in ms.
func (p *play) ms(word string) int64 { return max(p.unit, 1) * p.whole(word) }

// times reads how often a step is done: the x3 of "take 1 x3".
func (p *play) times(args []string) int64 {
	if len(args) < 2 {
		return 1
	}
	return p.whole(strings.TrimPrefix(args[1], "x"))
}

// rateOf reads a rate: permits, interval, and options.
func rateOf(args []string) (
	typ rratelimiter.RateType, rate int64, interval time.Duration, opts []rratelimiter.RateOption,
) {
	rate, _ = strconv.ParseInt(args[0], 10, 64)
	interval, _ = time.ParseDuration(args[1])
	for _, word := range args[2:] {
		if alive, err := time.ParseDuration(word); err == nil {
			opts = append(opts, rratelimiter.WithKeepAlive(alive))
		}
		switch word {
		case "keep":
			opts = append(opts, rratelimiter.WithKeepState())
		case "keeprate":
			opts = append(opts, rratelimiter.WithKeepRate())
		case "each":
			typ = PerClient
		}
	}
	return typ, rate, interval, opts
}
