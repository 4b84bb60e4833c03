package clusters_test

import (
	"fmt"
	"os"
	"slices"
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

// A scriptCall is a call of one script on a limiter of 10 a minute.
type scriptCall struct {
	name string

	// prepare brings the limiter into a state, with all rights, and returns the call.
	prepare func(full *Limiter) (call func(l *Limiter) error)
}

// then returns a prepare of some steps, and of a call that is the same after each of them.
func then(call func(l *Limiter) error, steps ...func(full *Limiter)) func(*Limiter) func(*Limiter) error {
	return func(full *Limiter) func(*Limiter) error {
		for _, step := range steps {
			step(full)
		}
		return call
	}
}

func taking(permits int64) func(*Limiter) error {
	return func(l *Limiter) error { return ErrOf(l.TryAcquire(l.Context(), permits, 0)) }
}

func releasing(permits int64) func(*Limiter) error {
	return func(l *Limiter) error { return l.Release(l.Context(), permits) }
}

func charging(permits int64) func(*Limiter) error {
	return func(l *Limiter) error { return ErrOf(l.Charge(l.Context(), permits)) }
}

// givenRate is a limiter that sets a rate, another one than is set.
func givenRate(l *Limiter) *rratelimiter.RateLimiter {
	return l.WithRate(20, 30*time.Second, rratelimiter.WithKeepAlive(time.Hour))
}

func takesSome(full *Limiter) { full.Takes(2) }

// someExpire takes permits of which some come back.
func someExpire(full *Limiter) {
	full.Takes(2)
	full.Now += 40_000
	full.Takes(3)
	full.Now += 30_000
}

// isWrong leaves a wrong value.
func isWrong(full *Limiter) {
	full.Takes(2)
	full.SetKey(full.ValueKey(), 99)
}

func keepsAlive(full *Limiter) {
	full.Want(full.SetRate(full.Context(), Overall, 10, time.Minute, rratelimiter.WithKeepAlive(time.Hour)))
}

func isPerClient(full *Limiter) {
	full.Want(full.SetRate(full.Context(), PerClient, 10, time.Minute))
}

func ends(full *Limiter) { full.Want(Yes(full.Expire(full.Context(), time.Hour))) }

// manySessions are more than a limiter keeps.
func manySessions(full *Limiter) {
	for i := range 12 {
		full.Want(full.Look.HSet(full.Context(), full.Name(), fmt.Sprint("session:", i),
			"0000000000000001 1000 1 1000").Err())
	}
}

func isRemoved(full *Limiter) { full.Want(ErrOf(full.Delete(full.Context()))) }

func hasJavaRecords(full *Limiter) {
	for _, j := range JavaRecords {
		full.Record(full.Now, j.Member)
	}
	full.Record(full.Now, "rubbish")
}

func hasManyRecords(full *Limiter) {
	full.Fill(full.Now-30_000, 1, 2500, 1)
}

// both returns the limiter and another one.
func both(l *Limiter) *rratelimiter.Group {
	other := l.Client.Keyed("{"+l.Name()+"}:user", 10, time.Minute).RateLimiter("42")
	return l.Client.All(l.RateLimiter, other)
}

func alone(l *Limiter) *rratelimiter.Group { return l.Client.All(l.RateLimiter) }

// settling returns a prepare that reserves 5 permits between two steps, and settles them.
func settling(used int64, of func(*Limiter) *rratelimiter.Group, before, after func(*Limiter),
) func(*Limiter) func(*Limiter) error {
	return func(full *Limiter) func(*Limiter) error {
		before(full)
		r, err := of(full).Reserve(full.Context(), 5, 0)
		full.Want(err)
		after(full)
		return func(l *Limiter) error {
			here, err := l.Client.Reservation(r.ID())
			full.Want(err)
			return here.Settle(l.Context(), used)
		}
	}
}

func nothing(*Limiter) {}

// aMinuteLater lets the reservation come back.
func aMinuteLater(full *Limiter) { full.Now += time.Minute.Milliseconds() }

// books runs book.lua, which a Client does in the background.
func books(l *Limiter) error {
	err := l.RDB.Eval(l.Context(), redisx.Included(scripts.Files, "book.lua"), l.Keys(), 0, "session:booker",
		"0000000000000001", "", "", l.Now, "", "", "", "", "", l.Now-10,
		"\x10abcdefghijklmnop\x02\x00\x00\x00").Err()
	if err != nil && strings.Contains(err.Error(), "can't run this command") { // as errors.go of the engine
		err = fmt.Errorf("NOPERM %w", err)
	}
	return err
}

// scriptCalls reach every write of every script.
var scriptCalls = []scriptCall{
	{"acquire", then(taking(2), takesSome)},
	{"acquire, the first", then(taking(2))},
	{"acquire, some expired", then(taking(2), someExpire)},
	{"acquire, the value is wrong", then(taking(2), isWrong)},
	{"acquire, keep alive", then(taking(2), keepsAlive, takesSome)},
	{"acquire, Expire", then(taking(2), takesSome, ends)},
	{"acquire, Expire and a wrong value", then(taking(2), isWrong, ends)},
	{"acquire, many sessions", then(taking(2), manySessions)},
	{"acquire, PerClient", then(taking(2), isPerClient, takesSome)},
	{"acquire, PerClient, the first", then(taking(2), isPerClient)},
	{"acquire, refused", then(taking(9), takesSome)},
	{"acquire, refused, some expired", then(taking(9), someExpire)},
	{"acquire, given rate, the first", then(func(l *Limiter) error {
		return ErrOf(givenRate(l).TryAcquire(l.Context(), 2, 0))
	}, isRemoved)},
	{"acquire, another rate", then(func(l *Limiter) error {
		return ErrOf(givenRate(l).TryAcquire(l.Context(), 2, 0))
	}, someExpire)},
	{"acquire, resolution", then(func(l *Limiter) error {
		return ErrOf(l.Coarse(10*time.Second).TryAcquire(l.Context(), 2, 0))
	}, func(full *Limiter) { full.Coarse(10 * time.Second).Takes(3) })},
	{"all", then(func(l *Limiter) error { return ErrOf(both(l).TryAcquire(l.Context(), 2, 0)) })},
	{"all, again", then(func(l *Limiter) error { return ErrOf(both(l).TryAcquire(l.Context(), 2, 0)) },
		func(full *Limiter) { full.Want(Yes(both(full).TryAcquire(full.Context(), 2, 0))) })},
	{"all, the value is wrong", then(func(l *Limiter) error {
		return ErrOf(both(l).TryAcquire(l.Context(), 2, 0))
	}, isWrong)},
	{"all, keep alive", then(func(l *Limiter) error { return ErrOf(both(l).TryAcquire(l.Context(), 2, 0)) },
		keepsAlive, takesSome)},
	{"release of a part", then(releasing(1), takesSome)},
	{"release of two records", then(releasing(4), takesSome, someExpire)},
	{"release of all", then(releasing(2), takesSome)},
	{"release, the value is wrong", then(releasing(1), isWrong)},
	{"release, keep alive", then(releasing(1), keepsAlive, takesSome)},
	{"release, PerClient", then(releasing(1), isPerClient, takesSome)},
	{"settle to less", settling(2, alone, nothing, nothing)},
	{"settle to less, beside others", settling(2, alone, takesSome, nothing)},
	{"settle to nothing", settling(0, alone, nothing, nothing)},
	{"settle to nothing, beside others", settling(0, alone, takesSome, nothing)},
	{"settle to more", settling(7, alone, takesSome, nothing)},
	{"settle to less, Expire", settling(2, alone, nothing, ends)},
	{"settle to less, keep alive", settling(2, alone, keepsAlive, nothing)},
	{"settle to more, keep alive", settling(8, alone, keepsAlive, nothing)},
	{"settle to less, the value is wrong", settling(2, alone, nothing, isWrong)},
	{"settle to more, the value is wrong", settling(9, alone, nothing, isWrong)},
	{"settle to less, some expired", settling(2, alone, someExpire, nothing)},
	{"settle to more, late", settling(9, alone, takesSome, aMinuteLater)},
	{"settle both to less", settling(2, both, takesSome, nothing)},
	{"settle both to more", settling(7, both, takesSome, nothing)},
	{"settle both, the value is wrong", settling(2, both, nothing, isWrong)},
	{"settle, PerClient", settling(2, alone, isPerClient, nothing)},
	{"charge", then(charging(3), takesSome)},
	{"charge, the first", then(charging(3))},
	{"charge, the value is wrong", then(charging(3), isWrong)},
	{"charge, keep alive", then(charging(3), keepsAlive, takesSome)},
	{"charge, given rate", then(func(l *Limiter) error {
		return ErrOf(givenRate(l).Charge(l.Context(), 3))
	}, isRemoved)},
	{"book", then(books, takesSome)},
	{"book, keep alive", then(books, keepsAlive, takesSome)},
	{"book, the value is wrong", then(books, isWrong)},
	{"repair", then(func(l *Limiter) error { return ErrOf(l.Repair(l.Context())) }, hasJavaRecords)},
	{"repair of many records", then(func(l *Limiter) error { return ErrOf(l.Repair(l.Context())) },
		hasManyRecords)},
	{"peek", then(func(l *Limiter) error { return ErrOf(l.Peek(l.Context())) }, someExpire)},
	{"try_set_rate", then(func(l *Limiter) error {
		return ErrOf(l.TrySetRate(l.Context(), Overall, 10, time.Hour, rratelimiter.WithKeepAlive(time.Hour)))
	}, isRemoved)},
	{"set_rate", then(func(l *Limiter) error { return l.SetRate(l.Context(), Overall, 20, time.Hour) },
		keepsAlive, takesSome)},
	{"set_rate, another type", then(func(l *Limiter) error {
		return l.SetRate(l.Context(), PerClient, 20, time.Hour, rratelimiter.WithKeepAlive(time.Hour))
	}, takesSome)},
	{"set_rate with the state", then(func(l *Limiter) error {
		return l.SetRate(l.Context(), Overall, 20, 30*time.Second, rratelimiter.WithKeepState())
	}, keepsAlive, someExpire)},
	{"set_rate with the state, keep alive", then(func(l *Limiter) error {
		return l.SetRate(l.Context(), Overall, 20, 30*time.Second, rratelimiter.WithKeepState(),
			rratelimiter.WithKeepAlive(time.Hour))
	}, someExpire)},
	{"expire", then(func(l *Limiter) error { return ErrOf(l.Expire(l.Context(), time.Hour)) }, takesSome)},
	{"expire at a time", then(func(l *Limiter) error {
		return ErrOf(l.ExpireAt(l.Context(), time.Now().Add(time.Hour)))
	}, takesSome)},
	{"expire at once", then(func(l *Limiter) error {
		return ErrOf(l.ExpireAt(l.Context(), time.Now().Add(-time.Hour)))
	}, takesSome)},
	{"clear", then(func(l *Limiter) error { return ErrOf(l.ClearExpire(l.Context())) }, takesSome, ends)},
	{"clear, PerClient", then(func(l *Limiter) error { return ErrOf(l.ClearExpire(l.Context())) },
		isPerClient, takesSome, ends)},
	{"rename", then(func(l *Limiter) error {
		return l.Client.RateLimiter(l.Name()).Rename(l.Context(), "{"+l.Name()+"}:next")
	}, takesSome)},
	{"delete", then(func(l *Limiter) error { return ErrOf(l.Delete(l.Context())) }, takesSome)},
}

// contents returns what the keys of a server hold, without sessions and the names of records.
func contents(b *Bench) string {
	b.Helper()
	ctx, text := b.Context(), []string{}
	for _, key := range b.Look.Keys(ctx, "*").Val() {
		line := fmt.Sprintf("%s for %.0f s:", key, b.Look.PTTL(ctx, key).Val().Seconds())
		switch kind := b.Look.Type(ctx, key).Val(); kind {
		case "hash":
			var fields []string
			for field, content := range b.Look.HGetAll(ctx, key).Val() {
				if !strings.HasPrefix(field, "session:") && field != "checked" {
					fields = append(fields, field+"="+content)
				}
			}
			slices.Sort(fields)
			line += fmt.Sprint(fields)
		case "string":
			line += b.Look.Get(ctx, key).Val()
		default:
			var records []string
			for _, z := range b.Look.ZRangeWithScores(ctx, key, 0, -1).Val() {
				m := z.Member.(string)
				records = append(records, fmt.Sprintf("%d at %.0f: % x", len(m), z.Score-float64(b.Now),
					m[max(0, len(m)-4):]))
			}
			slices.Sort(records)
			line += fmt.Sprint(records)
		}
		text = append(text, line)
	}
	slices.Sort(text)
	return strings.Join(text, "\n")
}

// optionalRights are those without which every call works.
var optionalRights = []string{"+incrby", "+publish", "+zrevrange", "+type"}

// A denial is a bench whose user "app" lacks some rights.
type denial struct {
	*Bench
	rdb      *redis.Client // of "app"
	start    int64
	rights   []string          // all that there are
	together map[string]string // what is seen without each right that belongs to another right
}

// lacking returns the rights to go without: each one alone, and the optional ones in every combination.
func (d *denial) lacking() (without [][]string) {
	for _, right := range d.rights {
		if strings.HasPrefix(right, "+") {
			without = append(without, []string{right})
		}
	}
	for some := range 1 << len(optionalRights) {
		var lacks []string
		for i, right := range optionalRights {
			if some>>i&1 == 1 {
				lacks = append(lacks, right)
			}
		}
		if len(lacks) != 1 {
			without = append(without, lacks)
		}
	}
	return without
}

// reads reads on the page which rights belong together.
func (d *denial) reads() {
	d.Helper()
	page, err := os.ReadFile("../../docs/keys.md")
	NoError(d, err)
	_, list, _ := strings.Cut(string(page), "These rights belong together: ")
	list, _, found := strings.Cut(list, ".")
	d.together = map[string]string{}
	for right := range strings.FieldsSeq(list) {
		d.together[strings.Trim(right, "`")] = "no call is half done without it"
	}
	if !found || len(d.together) > len(d.rights) {
		d.Fatalf("the page does not say which rights belong together: %q", list)
	}
}

// tries makes a call without some rights, and returns the contents before and after it.
func (d *denial) tries(c scriptCall, lacks []string) (before, after string, err error) {
	d.Now = d.start
	d.Want(d.Look.FlushDB(d.Context()).Err())
	redistest.Allow(d.T, "app", d.rights, d.Look)
	full := as(d.Bench, d.Look)
	d.Want(full.SetRate(d.Context(), Overall, 10, time.Minute))
	call := c.prepare(full)
	before = contents(d.Bench)
	redistest.Allow(d.T, "app", slices.DeleteFunc(slices.Clone(d.rights), func(right string) bool {
		return slices.Contains(lacks, right)
	}), d.Look)
	err = call(as(d.Bench, d.rdb))
	return before, contents(d.Bench), err
}

// judges expects that a call without some rights leaves what it wants, or fails and changes nothing.
func (d *denial) judges(c scriptCall, lacks []string, want string) {
	d.Helper()
	before, after, err := d.tries(c, lacks)
	switch {
	case err == nil && after != want:
		d.Errorf("%s without %q leaves\n%s\nwant\n%s", c.name, lacks, after, want)
	case err == nil:
	case !strings.Contains(err.Error(), "NOPERM"), slices.Contains(optionalRights, lacks[0]):
		d.Errorf("%s without %q: %v", c.name, lacks, err)
	case after != before && len(lacks) == 1 && d.together[lacks[0]] != "":
		d.together[lacks[0]] = "half done"
	case after != before:
		d.Errorf("%s without %q is denied and leaves\n%s\nwant\n%s", c.name, lacks, after, before)
	}
}

// Without a right, or without some of the optional ones, a call does all that it does with them, or changes
// nothing and returns an error. The page names the rights of which this is not true.
func TestACallThatIsDeniedChangesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rights := append(slices.DeleteFunc(rule(t, ruleOfAll), func(right string) bool {
		return strings.HasPrefix(right, "~") || strings.HasPrefix(right, "&")
	}), "~*", "&*")
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	redistest.Allow(t, "app", rights, s.Admin())
	b := NewBench(t, rdb, s.Admin())
	d := &denial{Bench: b, rdb: rdb, start: b.Now, rights: rights}
	d.reads()
	without := d.lacking()
	for _, c := range scriptCalls {
		_, want, err := d.tries(c, nil) // with all rights
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, lacks := range without {
			d.judges(c, lacks, want)
		}
	}
	for right, seen := range d.together {
		if seen != "half done" {
			t.Errorf("the page says that %s belongs to other rights, but %s", right, seen)
		}
	}
}

// as returns the limiter "api" of a new Client, by which the bench goes on.
func as(b *Bench, rdb *redis.Client) *Limiter {
	b.RDB = rdb
	b.Client = b.NewClient(rratelimiter.WithID("0f3e1c9a-4d2b-4c57-8a55-0123456789ab"))
	return b.Wrap(b.Client.RateLimiter("api"))
}
