package formtest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A Play tells promises of an algorithm in words. The steps of a promise are separated by "; ". A step is a
// verb with its arguments, then perhaps a name for what it gets, expected numbers of the last Result, which
// may be ranges, and an expected error: "take 4 as a left 6..7 reset 1h". A number is also 3x1 for steps
// that are repeated: "20x take 5". Each form keeps a promise in a bubble, and all forms end alike.
type Play struct {
	Algorithms map[string]Algorithm // which share a name on Redis; or a single one
	Grain      time.Duration
	Verbs      map[string]Verb // beside those of this package
	Errors     map[string]error
	Forms      []string // the default is all
}

// The names of all forms.
var (
	InMemory = []string{"InMemory", "InMemory For"}
	OnRedis  = []string{"OnRedis", "OnRedis For"}
)

// A Verb does a step with its arguments.
type Verb = func(s *Stage, args []string) error

// A Stage is a form under way. A step that begins with the name of an algorithm or of a key, as in
// "other: take 4", is for that algorithm or key.
type Stage struct {
	*testing.T
	Limiter              // of this step
	As      string       // the name that this step gives
	Want    error        // of this step
	Last    limit.Result // of the last call that had one
	Things  map[string]any

	play    Play
	start   time.Time
	mini    *Mini
	form    string
	made    map[string]Limiters
	name    string           // of the algorithm of this step, or of its key
	ahead   time.Duration    // of the clock of the limiter
	granted map[string]int64 // by name
	leave   map[string]func()
	callers sync.WaitGroup
	mu      sync.Mutex
	did     []string // guarded by mu: when callers were done
}

// Each returns a text for each of the numbers below n, which replaces its #.
func Each(n int, text string) (all string) {
	for i := range n {
		all += strings.ReplaceAll(text, "#", strconv.Itoa(i))
	}
	return all
}

// Tell tells promises of one algorithm.
func Tell(t *testing.T, a Algorithm, promises map[string]string) {
	t.Helper()
	Play{Algorithms: map[string]Algorithm{"": a}}.Tell(t, promises)
}

// Tell tells promises, each in a subtest of its name.
func (p Play) Tell(t *testing.T, promises map[string]string) {
	t.Helper()
	for promise, steps := range promises {
		t.Run(promise, func(t *testing.T) {
			t.Parallel()
			ends := map[string]string{}
			for _, form := range p.forms(steps) {
				t.Run(form, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { ends[text(p.tell(t, form, steps))] = form })
				})
			}
			if len(ends) > 1 && !t.Failed() {
				t.Errorf("the forms end as %v", ends)
			}
		})
	}
}

// forms returns the forms that know all words of steps: one limit has no keys, and memory no Redis.
func (p Play) forms(steps string) (forms []string) {
	onRedis := len(p.Algorithms) > 1 || strings.Contains(steps, "redis ")
	keyed := !onRedis && strings.Contains(steps, ": ")
	all := p.Forms
	if all == nil {
		all = slices.Concat(InMemory, OnRedis)
	}
	for _, form := range all {
		if (!onRedis || form == "OnRedis") && (!keyed || strings.HasSuffix(form, "For")) {
			forms = append(forms, form)
		}
	}
	return forms
}

// tell tells a promise to a form, and returns the last result.
func (p Play) tell(t *testing.T, form, steps string) limit.Result {
	s := &Stage{
		T: t, play: p, mini: NewMini(t), start: time.Now(), form: form, made: map[string]Limiters{},
		Things: map[string]any{}, granted: map[string]int64{}, leave: map[string]func(){},
	}
	var opts []limit.Option
	if strings.Contains(steps, "clock ") {
		opts = append(opts, limit.WithClock(s.Now))
	}
	for name, a := range p.Algorithms {
		var err error
		if slices.Contains(InMemory, form) {
			s.made[name], err = a.InMemory(opts...)
		} else {
			s.made[name], err = a.OnRedis(s.mini.Client, "name")
		}
		redistest.NoError(t, err)
	}
	for step := range strings.SplitSeq(steps, "; ") {
		times, once, repeated := strings.Cut(step, "x ")
		n, err := strconv.Atoi(times)
		if !repeated || err != nil {
			n, once = 1, step
		}
		for range n {
			if len(opts) > 0 {
				s.mini.SetTime(s.Now())
			}
			s.step(once)
		}
	}
	s.callers.Wait()
	return s.Last
}

// Now is the time of the limiter.
func (s *Stage) Now() time.Time { return time.Now().Add(s.ahead) }

// step does a step.
func (s *Stage) step(step string) {
	words := strings.Fields(step)
	who, named := strings.CutSuffix(words[0], ":")
	if s.name = ""; named {
		s.name, words = who, words[1:]
	}
	made, ok := s.made[s.name]
	key := "key"
	if !ok {
		made, key = s.made[""], s.name
	}
	if s.Limiter = made.Limiter; strings.HasSuffix(s.form, "For") {
		s.Limiter = made.For(key)
	}
	args, facts := s.read(words[1:])
	verb, ok := s.play.Verbs[words[0]]
	if !ok {
		verb = verbs[words[0]]
	}
	if verb == nil {
		s.Fatalf("no verb for %q", step)
	}
	if err := verb(s, args); !errors.Is(err, s.Want) {
		s.Fatalf("%q: %v, want %v; last was %s", step, err, s.Want, text(s.Last))
	}
	for fact, word := range facts {
		if got := s.fact(fact); !s.Is(got, word) {
			s.Fatalf("%q: %s is %d; last was %s", step, fact, got, text(s.Last))
		}
	}
	s.Last.Name, s.Last.Policy = "", ""
}
