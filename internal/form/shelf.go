package form

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// InMemoryKeyed returns a limiter with a limit for each key, in this process. rule is
// called once.
func InMemoryKeyed[S any](rule func() (Rule[S], error), opts []limit.Option) (Keyed, error) {
	r, err := rule()
	if err != nil {
		return nil, err
	}
	return &shelf[S]{rule: r, clock: newClock(opts), seed: maphash.MakeSeed()}, nil
}

// boards is how many parts a shelf has, each with a lock.
const boards = 64

// A shelf has the states of many limits. A state that nobody has used for Rest is as
// good as none, so it is dropped, with all that are as old. A board has two maps: what
// was used since its last turn, and what was used before. At the next turn, a Rest
// later or more, the older one goes. That takes no goroutine, and no look at each key
// unless the rule has states that owe for longer.
type shelf[S any] struct {
	rule   Rule[S]
	clock  clock
	seed   maphash.Seed
	due    atomic.Int64 // when boards are to turn, in µs
	boards [boards]board[S]
}

type board[S any] struct {
	mu       sync.Mutex
	last     int64 // the time of the last call, in µs
	turned   int64 // µs
	new, old map[string]*S
	_        [64]byte // two locks are not in one line of the cache
}

// Allow is that of a limit.Keyed.
func (s *shelf[S]) Allow(ctx context.Context, key string, n int64) (r limit.Result, err error) {
	var a Answer
	err = s.lend(ctx, key, n, &r, &a)
	return r, err
}

func (s *shelf[S]) lend(ctx context.Context, key string, n int64, r *limit.Result, a *Answer) error {
	if err := s.check(ctx, key, n); err != nil {
		return err
	}
	s.take(key, n, a)
	s.rule.fill(r, a)
	return nil
}

// Release is that of a limit.KeyedReleaser.
func (s *shelf[S]) Release(ctx context.Context, key string, n int64) error {
	if err := s.check(ctx, key, n); err != nil {
		return err
	}
	s.take(key, -n, new(Answer))
	return nil
}

func (s *shelf[S]) check(ctx context.Context, key string, n int64) error {
	if err := s.rule.Check(ctx, n); err != nil {
		return err
	}
	return Usable("the key", key)
}

func (s *shelf[S]) take(key string, n int64, a *Answer) {
	now, b := s.clock.read(), s.board(key)
	b.mu.Lock()
	now = s.clock.settle(now, &b.last)
	*a = s.rule.Take(b.find(key), now, n)
	b.mu.Unlock()
	a.Place = now + a.Reset
	s.tidy(now)
}

func (s *shelf[S]) board(key string) *board[S] { return &s.boards[maphash.String(s.seed, key)%boards] }

// tidy turns all boards if they are due. The caller has no lock.
func (s *shelf[S]) tidy(now int64) {
	if due := s.due.Load(); now >= due || now < due-s.rest() {
		s.turn(due, now)
	}
}

// rest returns Rest in µs.
func (s *shelf[S]) rest() int64 { return int64(s.rule.Rest / time.Microsecond) }

// find returns the state of a key. The caller has the lock.
func (b *board[S]) find(key string) *S {
	if state := b.new[key]; state != nil {
		return state
	}
	state := b.old[key]
	if state == nil {
		state = new(S)
	}
	if b.new == nil {
		b.new = make(map[string]*S)
	}
	b.new[key] = state
	return state
}

// turn turns all boards that were not turned for long. One caller of many does it.
func (s *shelf[S]) turn(due, now int64) {
	if !s.due.CompareAndSwap(due, now+s.rest()) {
		return
	}
	for i := range s.boards {
		s.turnOne(&s.boards[i])
	}
}

func (s *shelf[S]) turnOne(b *board[S]) {
	read := s.clock.read()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch passed := s.clock.settle(read, &b.last) - b.turned; {
	case passed < 0: // the clock was set back
		b.turned += passed
	case passed >= s.rest():
		b.turned += passed
		s.keep(b)
		b.old, b.new = b.new, nil // with room for as many keys, one call would take as long as a large map
	}
}

// keep has the states that must be kept stay for one more turn. The caller has the lock.
func (s *shelf[S]) keep(b *board[S]) {
	if s.rule.Owes == nil {
		return
	}
	for key, state := range b.old {
		if b.new[key] == nil && s.rule.Owes(state, b.turned) {
			b.find(key)
		}
	}
}
