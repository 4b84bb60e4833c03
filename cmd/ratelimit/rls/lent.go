package rls

import (
	"slices"
	"sync"

	"github.com/redisson-go/rratelimiter/limit"
)

// mostLent is how many reservations a Service remembers.
const mostLent = 10_000

// lent remembers the newest reservations of descriptors with their own hits. Negative hits, which name no
// earlier request, give back from the counter's newest reservation: exactly what it took, and nothing of
// other requests. The zero value is ready to use.
type lent struct {
	mu    sync.Mutex
	all   []*loan            // the oldest first; guarded by mu, as below
	byKey map[string][]*loan // in the same order
}

// A loan is a reservation of n permits.
type loan struct {
	key         string
	n           int64
	reservation *limit.Reservation
}

// add remembers a reservation, and forgets the oldest one when there are too many.
func (l *lent) add(key string, n int64, r *limit.Reservation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byKey == nil {
		l.byKey = make(map[string][]*loan)
	}
	made := &loan{key, n, r}
	l.all, l.byKey[key] = append(l.all, made), append(l.byKey[key], made)
	if len(l.all) > mostLent {
		oldest := l.all[0]
		l.all = l.all[1:]
		l.forget(oldest)
	}
}

// take returns the newest loan of a key that has n permits, and forgets it; nil if there is none.
func (l *lent) take(key string, n int64) *loan {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, found := range slices.Backward(l.byKey[key]) {
		if found.n >= n {
			taken := *found
			l.forget(found)
			return &taken
		}
	}
	return nil
}

// forget removes a loan from those of its key. It stays in all, which only bounds their number.
func (l *lent) forget(old *loan) {
	loans := l.byKey[old.key]
	if i := slices.Index(loans, old); i >= 0 {
		loans = slices.Delete(loans, i, i+1)
	}
	if l.byKey[old.key] = loans; len(loans) == 0 {
		delete(l.byKey, old.key)
	}
	old.reservation = nil
}
