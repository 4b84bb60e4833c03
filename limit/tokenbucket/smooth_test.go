package tokenbucket_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
	"github.com/redisson-go/rratelimiter/limit/tokenbucket"
)

// A Smooth is paced: if a second is short beside the interval, or with a short warm-up, it saves few permits.
func TestSmoothIsPaced(t *testing.T) {
	for _, tt := range []struct{ interval, warmUp time.Duration }{
		{100 * time.Second, 0}, {time.Second, time.Millisecond},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			t.Parallel()
			limittest.TestLimiter(t, limittest.Spec{
				New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
					s := tokenbucket.Smooth{Rate: float64(rate), Interval: interval, WarmUp: tt.warmUp}
					return smooth(t, s)
				},
				Algorithm: limittest.Paced, Interval: tt.interval, Synctest: true,
			})
			type keyed = limit.Keyed[tokenbucket.SmoothLimiter]
			limittest.TestKeyed(t, limittest.KeyedSpec[tokenbucket.SmoothLimiter]{
				New: func(t *testing.T, rate int64, interval time.Duration) keyed {
					s := tokenbucket.Smooth{Rate: float64(rate), Interval: interval, WarmUp: tt.warmUp}
					return smooth(t, s)
				},
				Algorithm: limittest.Paced, Interval: tt.interval, Synctest: true,
			})
		})
	}
}

func smooth(t *testing.T, s tokenbucket.Smooth) tokenbucket.SmoothLimiter {
	t.Helper()
	return redistest.Must(s.InMemory())(t)
}

// A releaser is a SmoothLimiter that takes no permits back.
type releaser struct{ tokenbucket.SmoothLimiter }

func (releaser) Release(context.Context, int64) error { return nil }

func (r releaser) For(key string) releaser { return releaser{r.SmoothLimiter.For(key)} }

// within calls TryAcquire, which waits up to a time, and expects its result.
func within(s *formtest.Stage, args []string, want bool) error {
	n, timeout := s.Number(args[0]), time.Duration(s.Number(args[1]))
	ok, err := s.Limiter.(releaser).TryAcquire(s.Ctx(), n, timeout)
	if err == nil && ok != want {
		err = errors.New("TryAcquire is wrong")
	}
	return err
}

// tell tells promises of a Smooth. "acquire 10 1s" waits for a second, "wait 1 as a" starts a caller.
func tell(t *testing.T, s tokenbucket.Smooth, promises map[string]string) {
	t.Helper()
	inMemory := func(opts ...limit.Option) (formtest.Limiters, error) {
		l, err := s.InMemory(opts...)
		return formtest.LimitersOf(releaser{l}, err)
	}
	formtest.Play{
		Algorithms: map[string]formtest.Algorithm{"": {InMemory: inMemory}}, Forms: formtest.InMemory,
		Verbs: map[string]formtest.Verb{
			"acquire": func(s *formtest.Stage, args []string) error {
				waited, err := s.Limiter.(releaser).Acquire(s.Ctx(), s.Number(args[0]))
				if waited = waited.Round(10 * time.Microsecond); err == nil && !s.Is(int64(waited), args[1]) {
					err = fmt.Errorf("waited %v", waited)
				}
				return err
			},
			"wait": func(s *formtest.Stage, args []string) error {
				l, n := s.Limiter.(releaser), s.Number(args[0])
				s.Start(func(ctx context.Context) error {
					_, err := l.Acquire(ctx, n)
					return err
				})
				return nil
			},
			"within": func(s *formtest.Stage, args []string) error { return within(s, args, true) },
			"beyond": func(s *formtest.Stage, args []string) error { return within(s, args, false) },
		},
	}.Tell(t, promises)
}

func TestSmooth(t *testing.T) {
	tell(t, tokenbucket.Smooth{Rate: 10, Interval: time.Second}, map[string]string{
		"the next caller pays, whatever it asks for, and a look takes nothing": "" +
			"acquire 10 0; acquire 10 1s; acquire 1 1s; 2x acquire 1 100ms; 2x see none retry 100ms; " +
			"sleep 100ms; acquire 1 0",
		"TryAcquire returns at once if the wait exceeds its timeout, and takes nothing": "" +
			"within 5 0; beyond 1 0; beyond 1 -1s; beyond 1 499ms; at 0; within 1 500ms; at 500ms; " +
			"within 1 1h; at 600ms",
		"the last caller takes nothing if its context ends": "" +
			"acquire 1 0; wait 1 as a; sleep 50ms; leave a; acquire 1 50ms; seen a 50ms left",
		"the time of an earlier caller passes unused": "" +
			"acquire 1 0; wait 1 as a; wait 1 as b; sleep 50ms; leave a; seen a 50ms left, b 200ms; " +
			"acquire 1 100ms",
		"a clock set back delays no caller, and no permit comes twice": "" +
			"take 5; clock -1h; refuse 1 retry 500ms; clock 200ms; refuse 1 retry 300ms; clock 300ms; take 1",
	})
	tell(t, tokenbucket.Smooth{Rate: 5, Interval: time.Second}, map[string]string{
		"the unused permits of a second are saved": "acquire 5 0; sleep 2s; 2x acquire 5 0; acquire 5 1s",
	})
	tell(t, tokenbucket.Smooth{Rate: 2, Interval: time.Second, WarmUp: 4 * time.Second}, map[string]string{
		"idle, it is cold: permits take three times as long, and less while it warms up": strings.Repeat(
			"acquire 1 0; acquire 1 1375ms; acquire 1 1125ms; acquire 1 875ms; acquire 1 625ms; "+
				"4x acquire 1 500ms; sleep 1m; ", 2) + "acquire 1 0",
	})
	tell(t, tokenbucket.Smooth{Rate: 1, Interval: time.Second}, map[string]string{
		"a key is kept while callers wait for it": formtest.Each(60, "busy: wait 1 as #; ") +
			strings.Repeat("sleep 1s; other: within 1 0; busy: refuse 1; ", 59) +
			"seen " + strings.TrimSuffix(formtest.Each(60, "# #s, "), ", "),
	})
	tell(t, tokenbucket.Smooth{Rate: 10, Interval: 10 * time.Second}, map[string]string{
		"a key that owes is kept without calls, also after callers have left": "busy: acquire 10 0; " +
			formtest.Each(6, "busy: wait 10 as #; ") + "sleep 1s; " + formtest.Each(5, "leave #; "+
			"") + "other: take 1; " +
			strings.Repeat("sleep 1s; other: take 1; ", 34) +
			strings.Repeat("sleep 1s; other: take 1; busy: refuse 10; ", 34) + "sleep 1s; busy: take 10",
	})
	tell(t, tokenbucket.Smooth{Rate: 1, Interval: 9 * 365 * 24 * time.Hour}, map[string]string{
		"a wait beyond the longest Duration is that Duration": formtest.Each(70, "wait 1 as #; ") +
			"refuse 1 retry 9223372036854775807" + formtest.Each(69, "; leave #"),
	})
}

func TestSmoothBounds(t *testing.T) {
	for text, s := range map[string]tokenbucket.Smooth{
		"Rate is 0":           {Interval: time.Second},
		"Interval is 0s":      {Rate: 1},
		"WarmUp is -1s":       {Rate: 1, Interval: time.Second, WarmUp: -time.Second},
		"WarmUp is 1ns":       {Rate: 1, Interval: time.Second, WarmUp: 1},
		"WarmUp is 2562047h":  {Rate: 1, Interval: time.Second, WarmUp: 1<<63 - 1},
		"Rate is 1e-10 in 1s": {Rate: 1e-10, Interval: time.Second},
	} {
		_, err := s.InMemory()
		if !errors.Is(err, limit.ErrInvalidArgument) || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", s, err, text)
		}
	}
	l := smooth(t, tokenbucket.Smooth{Rate: 3.7, Interval: time.Second})
	for n, want := range map[int64]error{0: limit.ErrInvalidArgument, 4: limit.ErrPermitsExceedRate} {
		_, err := l.Acquire(t.Context(), n)
		_, err2 := l.TryAcquire(t.Context(), n, 0)
		formtest.Fails(t, want, err)
		formtest.Fails(t, want, err2)
	}
	_, err := l.For("").Acquire(t.Context(), 1)
	formtest.Fails(t, limit.ErrInvalidArgument, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Acquire(ctx, 1)
	formtest.Fails(t, context.Canceled, err)
	if waited, err := l.Acquire(t.Context(), 3); waited != 0 || err != nil {
		t.Error(waited, err)
	}
}
