package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A lockPlay is a spec of a lock in words. Its steps are separated by "; ". A caller is a letter, which
// is its process, and a number: "a1 locks; b1 waits; a1 unlocks; b1 has". An owner java:N is one that the
// spec plays. LOCK, QUEUE and SCORES are keys, and a caller is its owner, in the words of a command.
type lockPlay struct {
	*fairEnv
	of        kind
	processes map[string]*playedProcess
	callers   map[string]*playedCaller
	messages  map[string]func() string // by owner
	now       time.Time                // of the last step "now"
	sent      *atomic.Int64            // commands since that
}

// A playedProcess is a Client that may be closed, or die.
type playedProcess struct {
	lock  locker
	close func() error
	die   func()
}

// A playedCaller has a hold, or waits for one, or both, consecutively.
type playedCaller struct {
	p     *lockPlay
	lock  locker
	turn  *fairTurn
	hold  *rlock.Hold
	owner string
}

// tell tells specs in fake time. A spec in which no time passes is also told to a real server.
func tell(t *testing.T, of kind, specs map[string]string) {
	t.Helper()
	for spec, steps := range specs {
		plays := func(s *fairEnv) {
			p := &lockPlay{fairEnv: s, of: of, processes: map[string]*playedProcess{},
				callers: map[string]*playedCaller{}, messages: map[string]func() string{}, now: time.Now()}
			for step := range strings.SplitSeq(steps, "; ") {
				if err := p.step(strings.Fields(step)); err != nil {
					s.Fatalf("%q: %v", step, err)
				}
			}
		}
		t.Run(spec, func(t *testing.T) { fairInBubble(t, plays) })
		if !regexp.MustCompile("sleep |after |place|deny |asks").MatchString(steps) {
			t.Run(spec+", on Redis", func(t *testing.T) { plays(newFairEnv(onRedis(t))) })
		}
	}
}

// process returns the process of a caller.
func (p *lockPlay) process(name string) *playedProcess {
	letter := name[:1]
	if p.processes[letter] == nil {
		process := &playedProcess{}
		if p.processes[letter] = process; letter == "m" { // mortal
			process.lock, process.die = p.mortal()
			return process
		}
		locks, end := open(p, p.rdb)
		process.lock, process.close = p.of(locks, p.name), end
	}
	return p.processes[letter]
}

// step does a step: that of a caller begins with its name.
func (p *lockPlay) step(words []string) error {
	if do := lockSteps[words[0]]; do != nil {
		return do(p, words)
	}
	name := words[0]
	c, do := p.callers[name], callerSteps[words[1]]
	if c == nil {
		c = &playedCaller{p: p, lock: p.process(name).lock}
		p.callers[name] = c
	}
	if do == nil {
		return errors.New("no such step")
	}
	return do(c, words)
}

func last(words []string) string { return words[len(words)-1] }

// lockSteps are the steps that are not of a caller.
var lockSteps = map[string]func(p *lockPlay, words []string) error{
	"now": func(p *lockPlay, _ []string) error { p.now, p.sent = time.Now(), p.count(); return nil },
	"after": func(p *lockPlay, words []string) error {
		return p.is("it was", int64(time.Since(p.now)), last(words))
	},
	"sent":  func(p *lockPlay, words []string) error { return p.is("were sent", p.sent.Load(), last(words)) },
	"sleep": func(p *lockPlay, words []string) error { time.Sleep(p.span(last(words))); return nil },
	"queue": func(p *lockPlay, words []string) error { return p.queues(words[1:]) },
	"last": func(p *lockPlay, words []string) error {
		all := p.waiting()
		want(p, "last in the queue", all[len(all)-1], p.owner(last(words)))
		return nil
	},
	"put":   func(p *lockPlay, words []string) error { p.put(words[1], p.span(last(words))); return nil },
	"wins":  func(p *lockPlay, words []string) error { p.wins(words[1], p.span(last(words))); return nil },
	"place": func(p *lockPlay, words []string) error { return p.lasts(p.owner(words[1]), last(words)) },
	"places": func(p *lockPlay, words []string) (err error) {
		for _, owner := range p.waiting() {
			err = errors.Join(err, p.lasts(owner, last(words)))
		}
		return err
	},
	"listens": func(p *lockPlay, words []string) error {
		p.messages[last(words)] = p.listens(last(words))
		return nil
	},
	"message": func(p *lockPlay, words []string) error {
		want(p, "message", p.messages[words[1]](), last(words))
		return nil
	},
	"deny": func(p *lockPlay, words []string) error { // a command, or scripts of so many keys
		p.deny(func(command string, args ...string) bool {
			return command == last(words) || command == "EVALSHA" && args[1] == last(words)
		})
		return nil
	},
	"free":  func(p *lockPlay, _ []string) error { p.settle(); p.free(); return nil },
	"close": func(p *lockPlay, words []string) error { return p.processes[last(words)].close() },
	"die":   func(p *lockPlay, words []string) error { p.processes[last(words)].die(); return nil },
	"redis": func(p *lockPlay, words []string) error {
		command := make([]any, len(words)-1)
		for i, word := range words[1:] {
			command[i] = p.owner(word)
		}
		return p.look.Do(p.Context(), command...).Err()
	},
}

// settle waits until all goroutines of a bubble wait.
func (p *lockPlay) settle() {
	if p.mini != nil {
		synctest.Wait()
	}
}

// callerSteps are the steps of a caller. A hold has no lease unless the step names one.
var callerSteps = map[string]func(c *playedCaller, words []string) error{
	"locks": func(c *playedCaller, words []string) (err error) {
		if len(words) > 2 {
			c.hold, err = c.lock.LockFor(within(c.p), c.p.span(words[2]))
		} else {
			c.hold, err = c.lock.Lock(within(c.p))
		}
		return err
	},
	"waits": func(c *playedCaller, words []string) error { // for a time, with a lease
		length := len(c.p.waiting()) + 1
		c.turn = c.p.starts(length, func(ctx context.Context) (*rlock.Hold, error) {
			if len(words) == 2 {
				return c.lock.Lock(ctx)
			}
			lease := c.p.span(append(words, "0s")[3])
			h, _, err := c.lock.TryLock(ctx, c.p.span(words[2]), lease)
			return h, err
		})
		c.owner = c.p.waiting()[length-1]
		return nil
	},
	"asks": func(c *playedCaller, _ []string) error { // waits, and may not subscribe
		c.turn = c.p.asks(c.lock.Lock)
		c.p.settle()
		return nil
	},
	"has": func(c *playedCaller, _ []string) error { c.hold = c.turn.held(); return nil },
	"takes": func(c *playedCaller, _ []string) error {
		c.hold = took(c.lock.TryLock(within(c.p), 0, 0))(c.p)
		return nil
	},
	"refused": func(c *playedCaller, words []string) error {
		defer c.p.settle()
		return refusal(c.lock.TryLock(within(c.p), c.p.span(words[2]), 0))
	},
	"leaves": func(c *playedCaller, _ []string) error {
		defer c.p.settle()
		c.turn.stop()
		if h := <-c.turn.hold; h != nil { // it has asked once more as it began to hear
			return h.Unlock(within(c.p))
		}
		wantErr(c.p, "Lock with a context that has ended", <-c.turn.err, context.Canceled)
		return nil
	},
	"ends": func(c *playedCaller, _ []string) error {
		wantErr(c.p, "Lock of a closed Client", <-c.turn.err, rratelimiter.ErrClosed)
		return nil
	},
	"unlocks": func(c *playedCaller, _ []string) error { return c.hold.Unlock(within(c.p)) },
	"relocks": func(c *playedCaller, _ []string) error { return c.hold.Relock(within(c.p)) },
	"lost": func(c *playedCaller, _ []string) error {
		wantErr(c.p, "Unlock", c.hold.Unlock(within(c.p)), rlock.ErrLost)
		return nil
	},
	"holds": func(c *playedCaller, words []string) error {
		n := c.p.number(words[2])
		want(c.p, "count", must(c.hold.HoldCount(within(c.p)))(c.p), n)
		want(c.p, "held", must(c.hold.IsHeld(within(c.p)))(c.p), n > 0)
		return nil
	},
	"sees": func(c *playedCaller, words []string) error {
		want(c.p, "locked", must(c.lock.IsLocked(within(c.p)))(c.p), words[2] == "locked")
		return nil
	},
	"lasts": func(c *playedCaller, words []string) error {
		return c.p.is("it lasts", int64(must(c.lock.RemainTimeToLive(within(c.p)))(c.p)), words[2])
	},
	"forces": func(c *playedCaller, words []string) error {
		want(c.p, "forced", must(c.lock.ForceUnlock(within(c.p)))(c.p), words[2] == "yes")
		return nil
	},
}

// lasts expects how long the place of an owner lasts.
func (p *lockPlay) lasts(owner, word string) error {
	return p.is(owner+" lasts", int64(p.left(owner)), word)
}

// owner returns the owner of a caller, or the name of a key or channel, or the word.
func (p *lockPlay) owner(word string) string {
	if c := p.callers[word]; c != nil {
		return c.owner
	}
	if name, ok := strings.CutPrefix(word, "CHANNEL:"); ok {
		return p.channel + ":" + p.owner(name)
	}
	return strings.NewReplacer("LOCK", p.name, "QUEUE", p.queue, "SCORES", p.scores).Replace(word)
}

// queues expects callers and owners in the queue, in this order, each with a score.
func (p *lockPlay) queues(names []string) error {
	for i, name := range names {
		names[i] = p.owner(name)
	}
	is := func() error {
		if got := p.waiting(); !slices.Equal(got, names) {
			return fmt.Errorf("%q wait, want %q", got, names)
		}
		return nil
	}
	if p.mini == nil { // on Redis a caller may still be leaving
		redistest.Until(p, "the queue", is)
	}
	return is()
}

// number reads a number, or a time in nanoseconds.
func (p *lockPlay) number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err == nil {
		return n
	}
	return int64(must(time.ParseDuration(word))(p))
}

func (p *lockPlay) span(word string) time.Duration { return time.Duration(p.number(word)) }

// is expects a number within a range.
func (p *lockPlay) is(what string, n int64, word string) error {
	from, to, isRange := strings.Cut(word, "..")
	if !isRange {
		to = from
	}
	if n < p.number(from) || n > p.number(to) {
		return fmt.Errorf("%s %d", what, n)
	}
	return nil
}
