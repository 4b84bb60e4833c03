package formtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// failures are the errors that every Play knows.
var failures = map[string]error{
	"invalid": limit.ErrInvalidArgument, "exceeds": limit.ErrPermitsExceedRate, "ended": context.Canceled,
	"late": context.DeadlineExceeded, // of a context of a second
}

// verbs are the verbs of every Play.
var verbs = map[string]Verb{
	"take":    func(s *Stage, args []string) error { return s.takes(args, true) },
	"refuse":  func(s *Stage, args []string) error { return s.takes(args, false) },
	"try":     (*Stage).tries,
	"drain":   (*Stage).drains,
	"granted": (*Stage).grants,
	"see":     (*Stage).sees,
	"release": func(s *Stage, args []string) error { return s.Release(s.Ctx(), s.Number(args[0])) },
	"back":    (*Stage).returns,
	"charge":  (*Stage).charges,
	"reserve": func(s *Stage, args []string) error { return s.reserves(args, true) },
	"deny":    func(s *Stage, args []string) error { return s.reserves(args, false) },
	"settle":  (*Stage).settles,
	"sleep":   func(s *Stage, args []string) error { time.Sleep(s.span(args[0])); return nil },
	"clock":   func(s *Stage, args []string) error { s.ahead += s.span(args[0]); return nil },
	"at": func(s *Stage, args []string) error {
		return s.count("ns have passed", int64(time.Since(s.start)), args[0])
	},
	"redis": (*Stage).commands,
	"leave": func(s *Stage, args []string) error { s.leave[args[0]](); synctest.Wait(); return nil },
	"seen":  (*Stage).saw,
}

// read splits the words of a step behind its verb into arguments, expected numbers and an expected error.
func (s *Stage) read(words []string) (args []string, facts map[string]string) {
	facts, s.As, s.Want = map[string]string{}, "", nil
	for i := 0; i < len(words); i++ {
		word := words[i]
		failure := cmp.Or(failures[word], s.play.Errors[word])
		switch last := i == len(words)-1; {
		case last && failure != nil:
			s.Want = failure
		case word == "as":
			i++
			s.As = words[i]
		case !last && slices.Contains([]string{"left", "debt", "retry", "reset", "limit", "interval"}, word):
			i++
			facts[word] = words[i]
		default:
			args = append(args, word)
		}
	}
	return args, facts
}

// fact returns a number of the last result, times in nanoseconds.
func (s *Stage) fact(name string) int64 {
	return map[string]int64{
		"left": s.Last.Remaining, "debt": s.Last.Debt, "retry": int64(s.Last.RetryAfter),
		"reset": int64(s.Last.ResetAfter), "limit": s.Last.Limit, "interval": int64(s.Last.Interval),
	}[name]
}

// Is reports whether a number is the one, or in the range, of a word.
func (s *Stage) Is(got int64, word string) bool {
	from, to, isRange := strings.Cut(word, "..")
	if !isRange {
		to = from
	}
	return s.Number(from) <= got && got <= s.Number(to)
}

// Number reads a number, or a time in nanoseconds.
func (s *Stage) Number(word string) int64 {
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return n
	}
	return int64(s.span(word))
}

// span reads a time: a duration, a time of the last result, the grain of the algorithm, or a difference.
func (s *Stage) span(word string) time.Duration {
	word, less, _ := strings.Cut(word, "-")
	switch word {
	case "":
		if less == "" {
			return 0
		}
	case "retry":
		return s.Last.RetryAfter - s.span(less)
	case "reset":
		return s.Last.ResetAfter - s.span(less)
	case "grain":
		return max(s.play.Grain, time.Microsecond)
	}
	d, err := time.ParseDuration(cmp.Or(word, "0s"))
	if err != nil {
		s.Fatal(err)
	}
	return d - s.span(less)
}

// Ctx returns the context of a call: an ended one for a step that expects so.
func (s *Stage) Ctx() context.Context {
	ctx, cancel := context.WithCancel(s.Context())
	switch s.Want {
	case context.Canceled:
		cancel()
	case context.DeadlineExceeded:
		ctx, cancel = context.WithTimeout(ctx, time.Second)
	}
	s.Cleanup(cancel)
	return ctx
}

// judge keeps the result of a call for n permits, and expects it to be allowed, or not.
func (s *Stage) judge(r limit.Result, err error, n int64, want bool) error {
	if s.Last = r; r.Allowed {
		s.granted[s.name] += n
	}
	if err == nil && r.Allowed != want {
		err = fmt.Errorf("allowed is %v", r.Allowed)
	}
	return err
}

// takes takes permits: by TryReserve if they may be returned, otherwise by Allow.
func (s *Stage) takes(args []string, want bool) error {
	n := s.Number(args[0])
	if s.As == "" {
		r, err := s.Allow(s.Ctx(), n)
		return s.judge(r, err, n, want)
	}
	r, result, err := s.Limiter.(Lender).TryReserve(s.Ctx(), n)
	s.Things[s.As] = loan{r, n}
	return s.judge(result, err, n, want)
}

// A loan is a grant of n permits that may be returned.
type loan struct {
	*limit.Reservation
	n int64
}

// tries takes permits if they are there.
func (s *Stage) tries(args []string) error {
	n := s.Number(args[0])
	r, err := s.Allow(s.Context(), n)
	return s.judge(r, err, n, r.Allowed)
}

// drains takes all permits one by one, and expects how many there were.
func (s *Stage) drains(args []string) error {
	before := s.granted[s.name]
	for s.Last.Allowed = true; s.Last.Allowed; {
		if err := s.tries([]string{"1"}); err != nil {
			return err
		}
	}
	return s.count("were granted", s.granted[s.name]-before, args[0])
}

// grants expects how many permits were granted since the last such step.
func (s *Stage) grants(args []string) error {
	n := s.granted[s.name]
	s.granted[s.name] = 0
	return s.count("were granted", n, args[0])
}

func (s *Stage) count(what string, n int64, word string) error {
	if !s.Is(n, word) {
		return fmt.Errorf("%d %s", n, what)
	}
	return nil
}

// sees looks at the limiter, and expects permits or none.
func (s *Stage) sees(args []string) error {
	return s.judge(peek(s.T, s.Limiter), nil, 0, args[0] == "some")
}

// peek calls Peek.
func peek(t *testing.T, l limit.Peeker) limit.Result {
	t.Helper()
	return redistest.Must(l.Peek(t.Context()))(t)
}

// returns returns permits of a grant.
func (s *Stage) returns(args []string) error {
	l, ok := s.Things[args[1]].(loan)
	if !ok {
		return fmt.Errorf("no grant %s", args[1])
	}
	return l.Settle(s.Context(), l.n-s.Number(args[0]))
}

func (s *Stage) charges(args []string) (err error) {
	s.Last, err = s.Limiter.(limit.Charger).Charge(s.Ctx(), s.Number(args[0]))
	return err
}

// reserves reserves permits, within a timeout if there is one.
func (s *Stage) reserves(args []string, want bool) (err error) {
	var r *limit.Reservation
	n, ctx, l := s.Number(args[0]), s.Ctx(), s.Limiter.(limit.Reserver)
	if len(args) > 1 {
		r, err = l.Reserve(ctx, n, s.span(args[1]))
	} else {
		r, s.Last, err = l.TryReserve(ctx, n)
	}
	s.Things[s.As] = r
	if err == nil && (r != nil) != want {
		err = fmt.Errorf("the reservation is %v", r)
	}
	return err
}

func (s *Stage) settles(args []string) error {
	r, ok := s.Things[args[0]].(*limit.Reservation)
	if !ok {
		return fmt.Errorf("no reservation %s", args[0])
	}
	if len(args) > 1 && args[1] == "none" {
		return r.Cancel(s.Context())
	}
	var used []int64
	for _, word := range args[1:] {
		used = append(used, s.Number(word))
	}
	return r.Settle(s.Ctx(), used...)
}

// commands sends a command to Redis, and perhaps expects its reply, a number. In its words _ is a space, and
// NOW and HOUR are the time, and that in an hour, in µs.
func (s *Stage) commands(args []string) error {
	words, want := args, ""
	if i := slices.Index(args, "="); i >= 0 {
		words, want = args[:i], args[i+1]
	}
	command := make([]any, len(words))
	for i, word := range words {
		if word == "KEY" { // the only one
			word = s.mini.Keys()[0]
		}
		now := s.Now().UnixMicro()
		command[i] = strings.NewReplacer(
			"_", " ", "NOW", fmt.Sprint(now), "HOUR", fmt.Sprint(now+3600e6)).Replace(word)
	}
	reply := s.mini.Client.Do(s.Context(), command...)
	if want == "" {
		return reply.Err()
	}
	n, err := reply.Int64()
	return cmp.Or(err, s.count("is the reply", n, want))
}

// Start starts a caller by the name that the step gives, and returns when it waits, or is done.
func (s *Stage) Start(call func(ctx context.Context) error) {
	name := s.As
	ctx, leave := context.WithCancel(s.Context())
	s.leave[name] = leave
	s.callers.Go(func() {
		err := call(ctx)
		did := fmt.Sprint(name, " ", time.Since(s.start).Round(time.Millisecond))
		for word, failure := range s.play.Errors {
			if errors.Is(err, failure) {
				did, err = fmt.Sprint(did, " ", word), nil
			}
		}
		if errors.Is(err, context.Canceled) {
			did, err = did+" left", nil
		}
		if err != nil {
			s.Error(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.did = append(s.did, did)
	})
	synctest.Wait()
}

// saw waits for all callers, and expects when they were done, and how.
func (s *Stage) saw(args []string) error {
	s.callers.Wait()
	want := strings.Join(args, " ")
	if got := strings.Join(s.did, ", "); got != want {
		return fmt.Errorf("%s", got)
	}
	s.did = nil
	return nil
}
