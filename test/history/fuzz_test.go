package history_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// fuzzed returns what makes benches for a fuzz target, on miniredis and on a
// real redis-server that all inputs share.
func fuzzed(f *testing.F) func(t *testing.T, spec func(b *Bench)) {
	f.Helper()
	mini := redistest.Mini(f)
	server := redistest.Start(f)
	rdbs := []*redis.Client{redistest.MiniClient(f, mini), server.Client(f)}
	return func(t *testing.T, spec func(b *Bench)) {
		t.Helper()
		for _, rdb := range rdbs {
			b := NewBench(t, rdb, rdb)
			spec(b)
			b.Want(rdb.FlushDB(t.Context()).Err())
		}
	}
}

// expected fails the spec on an error that no state of a limiter explains.
func expected(b *Bench, err error) {
	b.Helper()
	if err != nil && !errors.Is(err, rratelimiter.ErrBadState) &&
		!errors.Is(err, rratelimiter.ErrNotInitialized) &&
		!errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
		b.Fatalf("%T %v", err, err)
	}
}

// all takes as many permits as there are, and returns how many. It asks for
// 2^40 at a time at most, and stops when it has the rate and more.
func takesAll(l *Limiter) (taken int64, err error) {
	l.Helper()
	for n := int64(1) << 40; n > 0; n /= 2 {
		for {
			r, err := l.Allow(l.Context(), n)
			if errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
				break
			}
			if err != nil {
				return taken, err
			}
			if r.Allowed {
				taken += n
			}
			if taken > r.Limit || r.Limit > 1<<44 {
				return taken, nil
			}
			if !r.Allowed {
				break
			}
		}
	}
	return taken, nil
}

// FuzzHash: whatever the hash and the value hold, calls return, or fail with an error that says what is
// wrong. No caller gets more than the rate, and what was taken is back an interval later.
func FuzzHash(f *testing.F) {
	for _, seed := range [][5]string{
		{"10", "1000", "0", "0", "10"}, {"10", "1000", "1", "60000", "x"}, {"1.5", "1000", "0", "0", ""},
		{"-3", "-5", "2", "-1", "-7"},
		{"0", "0", "0", "0", "0"}, {"9007199254740992", "9007199254740992", "0", "0", "9007199254740992"},
		{"1e3", "0x10", " 0", "nan", "inf"},
		{"9007199254740993", "1", "0", "0", "1"}, {"99999999999999999999", "", "0", "0", "1e+17"},
		{"5", "100", "OVERALL", "", "6"},
		{"4", "1000", "0", "9007199254740992", "-9223372036854775808"}, {"1\n", "1\x00", "0", "0", "1 "},
		{"3", "1e3", "0", "inf", "1e300"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], uint8(31))
	}
	f.Add("5", "1000", "0", "0", "", uint8(7)) // as Redisson before 3.38.0 writes it
	f.Add("5", "1000", "0", "0", "3", uint8(27))
	on := fuzzed(f)
	f.Fuzz(func(t *testing.T, rate, interval, typ, keepAlive, value string, present uint8) {
		on(t, func(b *Bench) {
			l := b.NewLimiter(Overall, 0, 0)
			names := []string{"rate", "interval", "type", "keepAliveTime"}
			for i, field := range []string{rate, interval, typ, keepAlive} {
				if present>>i&1 == 1 {
					b.Want(b.Look.HSet(b.Context(), l.Name(), names[i], field).Err())
				}
			}
			if present>>4&1 == 1 {
				b.SetKey(l.ValueKey(), value)
			}
			answers(l, keepAlive)
		})
	})
}

// answers expects sense of a limiter of which nothing is known.
func answers(l *Limiter, keepAlive string) {
	b := l.Bench
	b.Helper()
	if n, err := strconv.ParseFloat(keepAlive, 64); err == nil && n > 0 &&
		(n < 60_000 || n > math.MaxInt64/1e6) {
		return // it may end in the midst of the test; miniredis also takes the longest lives for short ones
	}
	r, c, err, configErr := reads(l)
	taken, acquireErr := takesAll(l)
	expected(b, acquireErr)
	expected(b, l.Release(b.Context(), 1))
	_, repairErr := l.Repair(b.Context())
	expected(b, repairErr)
	if err != nil {
		if taken > 0 || acquireErr == nil && r.Limit > 0 || repairErr == nil {
			b.Fatalf("%v, and %d taken (%v, %v)", err, taken, acquireErr, repairErr)
		}
		return
	}
	if configErr == nil {
		fills(l, r, c, taken, acquireErr)
	}
}

// reads returns what Peek and Config return, which must fit together.
func reads(l *Limiter) (r rratelimiter.Result, c rratelimiter.Config, err, configErr error) {
	b := l.Bench
	b.Helper()
	r, err = l.Peek(b.Context())
	expected(b, err)
	if r.Remaining < 0 || r.Remaining > max(0, r.Limit) {
		b.Fatalf("%+v", r)
	}
	c, configErr = l.Config(b.Context())
	expected(b, configErr)
	if configErr == nil && err == nil && c.Rate != r.Limit && c.Rate <= 1<<53 { // Lua is exact up to here
		b.Fatalf("%+v, %+v", c, r)
	}
	return r, c, err, configErr
}

// fills expects that no more was taken than there was, and that it comes back.
func fills(l *Limiter, r rratelimiter.Result, c rratelimiter.Config, taken int64, acquireErr error) {
	b := l.Bench
	b.Helper()
	if c.Interval <= 0 && r.Remaining != max(0, r.Limit) { // what is taken is back at once
		b.Fatalf("%+v, %+v", c, r)
	}
	if r.Limit > 1<<44 || c.Interval <= 0 || c.Interval > 1000*time.Hour {
		return
	}
	if acquireErr != nil || taken > max(0, r.Limit) || r.Remaining > taken {
		b.Fatalf("%d taken (%v), %+v", taken, acquireErr, r)
	}
	b.Now += c.Interval.Milliseconds()
	if again, err := takesAll(l); err != nil || again != max(0, r.Limit) {
		b.Fatalf("an interval later %d of %d are there, %v", again, r.Limit, err)
	}
}

// FuzzScript: whatever is asked for, in whatever order, and whatever others leave in the value and among the
// records meanwhile, Go never holds more than the rate, every call returns, and in the end all comes back.
func FuzzScript(f *testing.F) {
	f.Add([]byte{0, 5, 1, 2, 2, 200, 0, 10, 5, 0, 6, 0})
	f.Add([]byte{3, 8, 4, 'x', 'x', 'x', 'x', 5, 0, 0, 0, 0, 3, 1, 7, 5, 0, 2, 250, 0, 9})
	f.Add([]byte{4, 3, '1', 'e', '9', 0, 10, 4, 1, '7', 0, 10, 2, 255, 0, 10})
	f.Add([]byte{3, 3, 0, 'a', 'b', 'c', 3, 0, 0, 0, 1, 7, 9, 6, 0, 2, 255, 0, 3})
	f.Add([]byte{0, 4, 7, 20, 0, 9, 7, 3, 0, 1, 1, 30, 2, 99, 0, 2, 8, 0, 0, 3, 8, 1, 0, 3})
	f.Add([]byte{3, 21, 2, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 4, 0, 0, 0, 6, 0, 0, 9,
		1, 2})
	random := rand.New(rand.NewPCG(1, 2))
	for range redistest.Rounds(f, 100) {
		f.Add(someProgram(random))
	}
	on := fuzzed(f)
	f.Fuzz(func(t *testing.T, program []byte) {
		if len(program) > 400 {
			t.Skip()
		}
		on(t, func(b *Bench) { newPlay(b).run(program) })
	})
}

// someProgram returns one that makes sense: chance alone seldom comes to that.
func someProgram(random *rand.Rand) (program []byte) {
	for range 5 + random.IntN(40) {
		what := byte(random.IntN(48))
		program = append(program, what)
		switch size := random.IntN(24); what % 16 {
		case 0, 1, 7, 8, 9:
			program = append(program, byte(random.IntN(16)))
		case 2:
			program = append(program, byte(random.IntN(60)))
		case 3: // a record that may be one
			program = append(program, byte(size), byte(random.IntN(playInterval)))
			for i := range size {
				program = append(program,
					byte(random.IntN(256))*byte(min(1, max(0, 4+i-size)*random.IntN(2))))
			}
		case 4:
			text := strconv.Itoa(random.IntN(30) - 10)
			program = append(append(program, byte(len(text))), text...)
		}
	}
	return program
}

// A play is a limiter that bytes play with.
type play struct {
	*Limiter
	formats []*Limiter
	rate    int64
	taken   grants.Grants
}

const playInterval = 100 // ms

func newPlay(b *Bench) *play {
	p := &play{rate: 10}
	p.Limiter = b.NewLimiter(Overall, p.rate, playInterval*time.Millisecond)
	p.formats = []*Limiter{p.Limiter, p.InFormat(FI), p.InFormat(LC0I)}
	return p
}

// run carries out a program: a byte for what to do, one or more for with what.
func (p *play) run(program []byte) {
	at, out := 0, int64(0)
	next := func() (x byte) {
		if at < len(program) {
			x = program[at]
		}
		at++
		return x
	}
	for at < len(program) {
		p.step(next(), next)
		before := out // more than a rate that was lowered meanwhile
		if out = p.taken.Within(p.Now, playInterval).Sum(); out > max(p.rate, before) {
			p.Fatalf("before byte %d: Go holds %d of %d", at, out, p.rate)
		}
	}
	p.ends()
}

func (p *play) step(what byte, next func() byte) {
	b := p.Bench
	switch l := p.formats[what/16%3]; what % 16 {
	case 0, 8, 9:
		n := int64(next()%32) + 1
		r, err := l.Allow(b.Context(), n)
		if expected(b, err); err == nil && r.Allowed {
			p.taken = append(p.taken, grants.Grant{At: b.Now, Permits: n})
		}
	case 1:
		n := int64(next() % 32)
		expected(b, l.Release(b.Context(), n))
		p.taken = p.taken.Within(b.Now, playInterval)
		p.taken.Release(n, 0)
	case 2:
		b.Now += int64(next())
	case 3: // others add a record, of whatever bytes
		size, ahead := next()%40, int64(next()%playInterval)
		record := redis.Z{Score: float64(b.Now + ahead), Member: bytes(size, next)}
		b.Want(b.Look.ZAdd(b.Context(), p.PermitsKey(), record).Err())
	case 4: // others set the value, to whatever text
		text := bytes(next()%24, next)
		b.SetKey(p.ValueKey(), text)
		if isNumber(text) {
			p.taken = nil // to Go, another client has given permits back
		}
	case 5:
		r, err := l.Peek(b.Context())
		if expected(b, err); r.Remaining < 0 || r.Remaining > p.rate {
			b.Fatalf("%+v", r)
		}
	case 6:
		_, err := l.Repair(b.Context())
		expected(b, err)
	case 7: // what is out stays out, so the rate may be below it for a time
		rate := int64(next()%32) + 1
		b.Want(l.SetRate(b.Context(), Overall, rate, playInterval*time.Millisecond,
			rratelimiter.WithKeepState()))
		p.rate = rate
	}
}

func bytes(size byte, next func() byte) string {
	text := make([]byte, size)
	for i := range text {
		text[i] = next()
	}
	return string(text)
}

// isNumber reports whether Lua may take a text for a number.
func isNumber(text string) bool {
	text, _, _ = strings.Cut(text, "\x00")
	text = strings.TrimSpace(text)
	_, asFloat := strconv.ParseFloat(text, 64)
	_, asInt := strconv.ParseInt(text, 0, 64)
	return asFloat == nil || asInt == nil
}

// ends expects all permits to come back: those of records dated ahead by up to an interval, after two.
func (p *play) ends() {
	b := p.Bench
	p.Now += 2 * playInterval
	r, err := p.Peek(b.Context())
	b.Want(err)
	if r.Remaining != r.Limit {
		b.Fatalf("%+v when all should be back", r)
	}
	if taken, err := takesAll(p.Limiter); err != nil || taken != r.Limit {
		b.Fatalf("took %d of %d, %v", taken, r.Limit, err)
	}
	p.Has(0)
	if out := Sum(p.Records(p.PermitsKey())); out != r.Limit {
		b.Fatalf("%d permits of %d in records", out, r.Limit)
	}
}
