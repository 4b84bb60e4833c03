package clusters_test

import (
	"context"
	_ "embed" // testdata
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/scripts"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

//go:embed testdata/calls.txt
var callsTable string

// A server is where rows of testdata/calls.txt are played.
type server struct {
	*testing.T
	look  *redis.Client         // may do everything, where the limiter is
	user  redis.UniversalClient // may lack some rights
	nodes []*redis.Client       // all servers
	name  string                // of the limiter
	opts  []rratelimiter.Option // of its Clients

	replicas int // of each server
}

// A player does one row.
type player struct {
	*Bench
	s        *server
	full, by *rratelimiter.Client // has all rights; does the steps after the bar
	id       string               // of a reservation
	real     bool                 // the time is that of the server
}

// A call is what a row does with a limiter or a Group.
type call interface {
	TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Release(ctx context.Context, permits int64) error
	Charge(ctx context.Context, permits int64) (rratelimiter.Result, error)
	Reserve(ctx context.Context, permits int64, timeout time.Duration) (*rratelimiter.Reservation, error)
}

// starts returns a player of a row, with what the row does before the bar done, and what is behind it.
func (s *server) starts(row string) (p *player, steps string) {
	s.Helper()
	NoError(s, s.look.FlushDB(s.Context()).Err())
	before, steps, _ := strings.Cut(row, "|")
	p = &player{Bench: NewBench(s.T, s.look, s.look), s: s, real: hasStep(row, "real")}
	p.full = p.client(s.look)
	NoError(s, p.limiter(p.full).SetRate(s.Context(), Overall, 10, time.Minute))
	NoError(s, p.does(p.full, before))
	return p, steps
}

// hasStep reports whether a row has a step that begins with a word.
func hasStep(row, word string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(row, func(r rune) bool { return r == ';' || r == '|' }),
		func(step string) bool { return strings.HasPrefix(strings.TrimSpace(step), word) })
}

func (p *player) client(rdb redis.UniversalClient, opts ...rratelimiter.Option) *rratelimiter.Client {
	if !p.real {
		opts = append(opts, rratelimiter.WithClock(func() time.Time { return time.UnixMilli(p.Now) }))
	}
	opts = slices.Concat(p.s.opts, opts, []rratelimiter.Option{
		rratelimiter.WithID("0f3e1c9a-4d2b-4c57-8a55-0123456789ab")})
	return NewClient(p.T, rdb, opts...)
}

func (p *player) limiter(c *rratelimiter.Client) *rratelimiter.RateLimiter {
	return c.RateLimiter(p.s.name)
}

// does does steps by a Client, and returns the first error.
func (p *player) does(c *rratelimiter.Client, row string) error {
	p.by = c
	for step := range strings.SplitSeq(row, ";") {
		words := strings.Fields(step)
		if len(words) == 0 {
			continue
		}
		l := call(p.limiter(c))
		switch words[0] {
		case "group":
			user := c.Keyed("{"+p.s.name+"}:user", 10, time.Minute).For("42")
			l, words = c.All(p.limiter(c), user), words[1:]
		case "own":
			alive := rratelimiter.WithKeepAlive(time.Hour)
			l, words = p.limiter(c).WithRate(20, 30*time.Second, alive), words[1:]
		}
		if passed, ok := strings.CutPrefix(words[0], "+"); ok {
			p.Now += redistest.Must(time.ParseDuration(passed))(p).Milliseconds()
			continue
		}
		do := calls[words[0]]
		if do == nil {
			p.Fatalf("%q is no step", step)
		}
		if err := do(p, l, append(words[1:], "0")); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
	}
	return nil
}

func whole(args []string) int64 { n, _ := strconv.ParseInt(args[0], 10, 64); return n }

// setsRate sets the rate of a limiter as a word says: rate, try or update.
func setsRate(word string) func(*player, call, []string) error {
	return func(p *player, l call, args []string) error {
		interval, err := time.ParseDuration(args[1])
		NoError(p, err)
		typ, opts := Overall, []rratelimiter.RateOption(nil)
		for _, word := range args[2:] {
			switch word {
			case "each":
				typ = PerClient
			case "keep":
				opts = append(opts, rratelimiter.WithKeepState())
			case "alive":
				opts = append(opts, rratelimiter.WithKeepAlive(time.Hour))
			}
		}
		one := l.(*rratelimiter.RateLimiter)
		switch word {
		case "try":
			return Yes(one.TrySetRate(p.Context(), typ, whole(args), interval, opts...))
		case "update":
			return Yes(one.UpdateRate(p.Context(), typ, whole(args), interval, opts...))
		}
		return one.SetRate(p.Context(), typ, whole(args), interval, opts...)
	}
}

// method makes a method without arguments a step.
func method(name string) func(*player, call, []string) error {
	return func(p *player, l call, _ []string) error {
		return Methods[name](p.Context(), l.(*rratelimiter.RateLimiter))
	}
}

// calls are the words of a row; testdata/calls.txt says what they mean.
var calls = map[string]func(p *player, l call, args []string) error{
	"take": func(p *player, l call, args []string) error {
		return Yes(l.TryAcquire(p.Context(), whole(args), 0))
	},
	"no": func(p *player, l call, args []string) error {
		return No(l.TryAcquire(p.Context(), whole(args), 0))
	},
	"give": func(p *player, l call, args []string) error { return l.Release(p.Context(), whole(args)) },
	"charge": func(p *player, l call, args []string) error {
		return ErrOf(l.Charge(p.Context(), whole(args)))
	},
	"reserve": func(p *player, l call, args []string) error {
		r, err := l.Reserve(p.Context(), whole(args), 0)
		if r != nil {
			p.id = r.ID()
		}
		return err
	},
	"settle": func(p *player, _ call, args []string) error {
		r, err := p.by.Reservation(p.id)
		NoError(p, err)
		return r.Settle(p.Context(), whole(args))
	},
	"keyed": func(p *player, _ call, _ []string) error {
		return p.by.Keyed("{"+p.s.name+"}:user", 5, time.Hour).For("42").Acquire(p.Context(), 2)
	},
	"waits": func(p *player, l call, _ []string) error { return Yes(l.TryAcquire(p.Context(), 1, Patience)) },

	"rate": setsRate("rate"), "try": setsRate("try"), "update": setsRate("update"),
	"peek": method("Peek"), "repair": method("Repair"), "config": method("Config"),
	"exists": method("Exists"),
	"clear":  method("ClearExpire"), "delete": method("Delete"), "ttl": method("RemainTimeToLive"),
	"endtime": method("ExpireTime"), "ends": method("Expire"), "endsifset": method("ExpireIfSet"),
	"endsat": func(p *player, l call, args []string) error {
		d, err := time.ParseDuration(args[0])
		NoError(p, err)
		return ErrOf(l.(*rratelimiter.RateLimiter).ExpireAt(p.Context(), time.Now().Add(d)))
	},
	"rename": func(p *player, l call, _ []string) error {
		return l.(*rratelimiter.RateLimiter).Rename(p.Context(), "{"+p.s.name+"}:next")
	},
	"listen": func(p *player, l call, _ []string) error {
		for _, name := range []string{"OnExpired", "OnDeleted"} {
			if err := method(name)(p, l, nil); err != nil {
				return err
			}
		}
		return nil
	},
	"idle": func(p *player, l call, _ []string) error {
		stop, err := l.(*rratelimiter.RateLimiter).OnDeleted(p.Context(), func(string) {})
		timer := time.NewTimer(5 * time.Second) // the connection is checked every 3 s
		<-timer.C
		return Stopped(stop, err)
	},
	"wake": func(p *player, l call, _ []string) error { return p.wakes(l) },
	"bad": func(p *player, l call, _ []string) error {
		err := ErrOf(l.TryAcquire(p.Context(), 1, 0))
		if errors.Is(err, rratelimiter.ErrBadState) && strings.Contains(err.Error(), "is a list") {
			return nil
		}
		return err
	},
	// A Client books in the background.
	"book": func(p *player, _ call, _ []string) error {
		rdb := map[bool]redis.UniversalClient{true: p.s.look, false: p.s.user}[p.by == p.full]
		l := p.Wrap(p.limiter(p.by))
		runs := func(script string, args ...any) (any, error) {
			args = append([]any{0, "session:booker"}, args...)
			return rdb.Eval(p.Context(), redisx.Included(scripts.Files, script), l.Keys(), args...).Result()
		}
		reply, err := runs("book.lua", "0000000000000001", "", "", p.Now, "", "", "", "", "", p.Now-10,
			"\x10abcdefghijklmnop\x02\x00\x00\x00")
		if _, heals := reply.([]any); heals {
			_, err = runs("heal.lua", "", 0, "", p.Now)
		}
		if err != nil && strings.Contains(err.Error(), "can't run this command") {
			// as redisx.Denied knows it
			err = fmt.Errorf("NOPERM %w", err)
		}
		return err
	},

	"value!": func(p *player, _ call, args []string) error {
		return p.s.look.Set(p.Context(), "{"+p.s.name+"}:value", args[0], redis.KeepTTL).Err()
	},
	"list": func(p *player, _ call, _ []string) error {
		conn := p.s.look.Conn()
		defer conn.Close()
		NoError(p, conn.LPush(p.Context(), "{"+p.s.name+"}:value", "x").Err())
		return conn.Wait(p.Context(), p.s.replicas, Patience).Err() // they are asked for its type
	},
	"java": func(p *player, _ call, _ []string) error {
		l := p.Wrap(p.limiter(p.full))
		for _, j := range JavaRecords {
			l.Record(p.Now, j.Member)
		}
		l.Record(p.Now, "rubbish")
		return nil
	},
	"many": func(p *player, _ call, args []string) error {
		p.Wrap(p.limiter(p.full)).Fill(p.Now-30_000, 1, int(whole(args)), 1)
		return nil
	},
	"sessions": func(p *player, _ call, args []string) error {
		for i := range whole(args) {
			NoError(p, p.s.look.HSet(p.Context(), p.s.name, fmt.Sprint("session:", i),
				"0000000000000001 1000 1 1000").Err())
		}
		return nil
	},
	"forget": func(p *player, _ call, _ []string) error { return p.s.look.ScriptFlush(p.Context()).Err() },
	"real":   func(*player, call, []string) error { return nil },
	"only":   func(*player, call, []string) error { return nil },
	"slow":   func(*player, call, []string) error { return nil },
}

// wakes expects a waiter of another Client to be woken by a release. A waiter whose channel is denied looks
// once more when its subscription is confirmed, and at the end of its timeout.
func (p *player) wakes(l call) error {
	subscribed := func() (n int64) {
		channel := "{" + p.s.name + "}:changed"
		for _, node := range p.s.nodes {
			n += node.PubSubNumSub(p.Context(), channel).Val()[channel]
		}
		return n
	}
	Until(p.T, func() bool { return subscribed() == 0 }) // by a row before
	other := p.limiter(p.client(p.s.user, rratelimiter.WithGoOnly()))
	woken := make(chan error, 1)
	go func() {
		const timeout = 3 * time.Second
		start := time.Now()
		err := Yes(other.TryAcquire(p.Context(), 1, timeout))
		if err == nil && time.Since(start) >= timeout {
			err = errors.New("not before its timeout")
		}
		woken <- err
	}()
	Until(p.T, func() bool { return subscribed() > 0 || len(woken) > 0 })
	p.settles()
	return errors.Join(l.Release(p.Context(), 1), <-woken)
}

// settles returns when no script has run for some time.
func (p *player) settles() {
	last, since := int64(-1), time.Now()
	Until(p.T, func() bool {
		if now := redistest.Calls(p, p.s.look, "evalsha"); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 100*time.Millisecond
	})
}
