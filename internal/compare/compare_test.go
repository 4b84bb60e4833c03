package compare

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// life plays steps on a model, 10 ms apart, and returns the answers and the
// value string after each.
func life(m model, steps []Step) (lines []string) {
	var st state
	for i, s := range steps {
		var a answer
		a, st = m(st, s, int64(1000+10*i))
		lines = append(lines, fmt.Sprintf("%v %s", a, st.inForce().value))
	}
	return lines
}

func ofRate(op Operation, rate int64, interval time.Duration) Step {
	return Step{Op: op, Limit: rratelimiter.Config{Rate: rate, Interval: interval}}
}

// Redisson grants 8 permits of 5 in one interval: a release leaves the record,
// so the permits come back twice (B1).
func TestModels(t *testing.T) {
	steps := []Step{
		ofRate(TrySetRate, 5, 35*time.Millisecond),
		{Op: TryAcquire, Permits: 4},
		{Op: TryAcquire, Permits: 2},
		{Op: Release, Permits: 3},
		{Op: TryAcquire, Permits: 4},
		{Op: TryAcquire, Permits: 4},
		{Op: TryAcquire, Permits: 6},
	}
	for name, row := range map[string]struct {
		model
		want []string
	}{
		"exact": {exact, []string{
			"true ", "true 1", "false 1", " 4", "true 0", "false 1", "error: exceeds the rate 1",
		}},
		"redisson": {redisson, []string{
			"true ", "true 1", "false 1", " 4", "true 0", "true 0", "error: exceeds the rate 0",
		}},
	} {
		if got := life(row.model, steps); !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestSequenceDependsOnItsSeedAlone(t *testing.T) {
	for _, shared := range []bool{false, true} {
		a, b, c := sequence(7, shared), sequence(7, shared), sequence(8, shared)
		if !reflect.DeepEqual(a, b) || reflect.DeepEqual(a, c) || len(a) != stepsPerSequence {
			t.Errorf("shared %v:\n%s\n%s\n%s", shared, list(a), list(b), list(c))
		}
	}
}

// A sequence fails if it releases after it has acquired 3 permits or more.
func TestShrink(t *testing.T) {
	fails := func(steps []Step) *Divergence {
		acquired := false
		for i, s := range steps {
			if acquired && s.Op == Release {
				return &Divergence{At: i}
			}
			acquired = acquired || s.Op == TryAcquire && s.Permits >= 3
		}
		return nil
	}
	steps := []Step{
		ofRate(TrySetRate, 5, time.Second),
		{Op: IsExists, Pause: time.Second},
		{Op: TryAcquire, Permits: 7, Java: true, Pause: time.Second},
		{Op: GetConfig},
		{Op: Release, Permits: 9},
		{Op: Delete},
	}
	got, d := shrink(steps, fails(steps), fails)
	want := []Step{{Op: TryAcquire, Permits: 3}, {Op: Release}}
	if !reflect.DeepEqual(got, want) || d.At != 1 {
		t.Errorf("at %d of\n%swant\n%s", d.At, list(got), list(want))
	}
}

func TestStepAsText(t *testing.T) {
	s := ofRate(UpdateRate, 5, time.Second)
	s.Limit.KeepAlive, s.KeepState, s.Java, s.Pause = time.Minute, true, true, time.Millisecond
	want := "after 1ms Java: updateRate(OVERALL, 5, 1s, keepAlive 1m0s, keepState)"
	if got := s.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestErrorKind(t *testing.T) {
	java := func(typ, message string) error { return &javapeer.Error{Type: typ, Message: message} }
	for _, row := range []struct {
		err  error
		want string
	}{
		{nil, "none"},
		{fmt.Errorf("a: %w", rratelimiter.ErrNotInitialized), NotInitialized},
		{rratelimiter.ErrPermitsExceedRate, ExceedsRate},
		{rratelimiter.ErrInvalidArgument, BadArgument},
		{errors.New("else"), "else"},
		{java("RedisException", "RateLimiter is not initialized. channel: x"), NotInitialized},
		{java("RedisException", "Requested permits amount cannot exceed defined rate"), ExceedsRate},
		{java("java.lang.IllegalArgumentException", "keepAlive"), BadArgument},
	} {
		if got := ErrorKind(row.err); got != row.want {
			t.Errorf("%v: %q, want %q", row.err, got, row.want)
		}
	}
	err := java("RedisException", "broken. channel: x, script: is not initialized")
	if got := ErrorKind(err); !strings.Contains(got, "broken") {
		t.Errorf("the text of the script decides: %q", got)
	}
}

// What Go writes is read back, by the embedded server.
func TestReadStates(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	c := rratelimiter.New(rdb)
	defer c.Close()
	ctx, l := context.Background(), c.RateLimiter("a")
	for _, err := range []error{
		l.SetRate(ctx, rratelimiter.PerClient, 5, time.Minute),
		l.Acquire(ctx, 2),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	keys := append(keysOf("a", c.ID()), keysOf("b", c.ID())...)
	states := redistest.Must(readStates(ctx, rdb, keys))(t)
	a, p := states[0], states[0].inForce()
	if a.settings() != (settings{typ: 1, rate: 5, interval: 60_000, whole: true}) || a.ends != 0 {
		t.Errorf("%v", a)
	}
	if p.value != "3" || sum(p.records) != 2 || p.valueEnds == 0 || !a.pairs[0].empty() {
		t.Errorf("%v", a)
	}
	if !states[1].nothing() {
		t.Errorf("of nothing: %v", states[1])
	}
	rdb.ZAdd(ctx, "{b}:permits", redis.Z{Score: 1, Member: "x"})
	if _, err := readStates(ctx, rdb, keys); err == nil {
		t.Error("a member that is no record, and no error")
	}
}
