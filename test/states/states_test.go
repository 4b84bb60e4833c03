package states_test

import (
	"context"
	_ "embed" // testdata
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// A way is how a row calls the limiter that it is about.
type way struct {
	name    string
	calls   func(l *Limiter) caller
	without string // words of rows that make no sense in this way
}

// ways are all kinds of callers and all formats of records. A row comes out alike in each.
var ways = []way{
	{name: "a limiter", calls: alone},
	{name: "fI", calls: inFormat(FI), without: "many own repair given"},
	{name: "Lc0I", calls: inFormat(LC0I), without: "many repair given"},
	{name: "Bc0I of 8", calls: inFormat(BC0I8), without: "many repair given"},
	{name: "a Group", calls: inGroup, without: "single"},
	{name: "a rate of its own", calls: withRate,
		without: "many try update hash! unset delete given group twin ttl"},
	{name: "reservations", calls: reserving, without: "many give bad single reserve"},
	{name: "reservations of fI", calls: reservesFI, without: "many give bad single own repair given reserve"},
	{name: "sent again", calls: sentAgain(errNever, alone),
		without: "many lose hold exceeds given reserve charge"},
	{name: "a lost reply", calls: sentAgain(ErrLost, alone),
		without: "many lose hold exceeds given reserve charge"},
	// After an error a Group takes back what it may have got, later.
	{name: "a Group's lost reply", calls: sentAgain(ErrLost, inGroup),
		without: "many lose hold exceeds no unset bad given reserve charge"},
}

func alone(l *Limiter) caller { return l.RateLimiter }

func inFormat(version string) func(l *Limiter) caller {
	return func(l *Limiter) caller {
		return l.InFormat(version, rratelimiter.WithID(l.Client.ID())).RateLimiter
	}
}

// inGroup is the limiter with another one that has room for all.
func inGroup(l *Limiter) caller {
	other := l.NewLimiter(Overall, 1<<50, time.Minute)
	return l.Client.All(l.RateLimiter, other.RateLimiter)
}

// withRate is the limiter as a program has it that sets the rate by each call: the one that is set.
func withRate(l *Limiter) caller { return ownRate{l} }

type ownRate struct{ *Limiter }

func (o ownRate) Allow(ctx context.Context, permits int64) (rratelimiter.Result, error) {
	c, err := o.Config(ctx)
	if err != nil {
		return rratelimiter.Result{}, err
	}
	return o.WithRate(c.Rate, c.Interval).Allow(ctx, permits)
}

func reserving(l *Limiter) caller { return reserves{l} }

func reservesFI(l *Limiter) caller {
	return reserves{l.InFormat(FI, rratelimiter.WithID(l.Client.ID()))}
}

// A reserves takes permits by reservations, which it never settles.
type reserves struct{ *Limiter }

func (r reserves) Allow(ctx context.Context, permits int64) (rratelimiter.Result, error) {
	_, result, err := r.TryReserve(ctx, permits)
	return result, err
}

func (r reserves) TryAcquire(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	reservation, err := r.Reserve(ctx, permits, timeout)
	return reservation != nil, err
}

//go:embed testdata/states.txt
var states string

// Each row of testdata/states.txt comes out as it says, in each way to call.
func TestStates(t *testing.T) {
	server := redistest.Start(t)
	for name, row := range Rows(states) {
		t.Run(name, func(t *testing.T) {
			for _, way := range ways {
				if hasStep(row, way.without+" served") {
					continue
				}
				t.Run(way.name, func(t *testing.T) {
					m := redistest.Mini(t)
					rowOn(t, redistest.MiniClient(t, m, hurries), redistest.MiniClient(t, m), way, row)
				})
				t.Run(way.name+" on Redis", func(t *testing.T) {
					rowOn(t, server.Client(t, hurries), server.Admin(), way, row)
				})
			}
		})
	}
}

// Each row of testdata/states.txt with the word served comes out as it says by the clock of the server, which
// may be put back.
func TestStatesByTheServersClock(t *testing.T) {
	for name, row := range Rows(states) {
		if !hasStep(row, "served") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			for _, opt := range []rratelimiter.Option{
				rratelimiter.WithRedisson(BC0I16), rratelimiter.WithRedisson(FI),
			} {
				b := &Bench{T: t, Mini: redistest.Mini(t), Now: 1_700_000_000_000}
				b.RDB, b.Look = redistest.MiniClient(t, b.Mini), redistest.MiniClient(t, b.Mini)
				b.Client = NewClient(t, b.RDB, opt)
				l := b.NewLimiter(Overall, 0, 0)
				p := &play{Limiter: l, calls: l.RateLimiter, open: map[string]*rratelimiter.Reservation{}}
				p.does("+0;" + row)
			}
		})
	}
}

// rowOn plays a row on a server.
func rowOn(t *testing.T, rdb, look *redis.Client, way way, row string) {
	t.Helper()
	b := NewBench(t, rdb, look)
	b.Now++ // a ms in which a Client without a session does not check the value: parts/plain.lua
	l := b.NewLimiter(Overall, 0, 0)
	p := &play{Limiter: l, way: way, calls: way.calls(l), open: map[string]*rratelimiter.Reservation{}}
	p.does(row)
}

// hasStep reports whether a row has one of some words as a step.
func hasStep(row, words string) bool {
	for word := range strings.FieldsSeq(words) {
		if strings.Contains("; "+strings.TrimSpace(row), "; "+word) {
			return true
		}
	}
	return false
}
