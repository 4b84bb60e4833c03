package history_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// An account is what is known of one limiter.
type account struct {
	*Limiter
	rate    int64
	clients []*rratelimiter.Client
	shared  []*rratelimiter.RateLimiter // of each client
	permits string                      // the key of its records
	value   string                      // the key of what is left
	late    bool                        // permits of lost replies may come back an interval later
	held    atomic.Int64                // by callers that know it and have not begun to give back
	unknown atomic.Int64                // releases that ended with an error: done or not

	mu     sync.Mutex
	stakes []stake // what callers hold until the end; guarded by mu
	kept   int64   // their sum; guarded by mu
}

// A stake is what one caller holds, to be given back where it was taken.
type stake struct {
	l *rratelimiter.RateLimiter
	n int64
}

// hold notes permits that a caller holds.
func (a *account) hold(n int64) {
	if used := a.held.Add(n); used > a.rate {
		a.Errorf("%d permits are held at once, of %d", used, a.rate)
	}
}

// at is the limiter by one of its clients.
func (a *account) at(random *rand.Rand) *rratelimiter.RateLimiter {
	return a.by(random.IntN(len(a.clients)), random)
}

// by is the limiter by its i-th client; some callers make a RateLimiter for each request.
func (a *account) by(i int, random *rand.Rand) *rratelimiter.RateLimiter {
	if random.IntN(2) == 0 {
		return a.shared[i]
	}
	return a.clients[i].RateLimiter(a.Name())
}

// keep reports whether a stake is held until the end. Some are left for other callers.
func (a *account) keep(s stake) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept+s.n > a.rate/2 {
		return false
	}
	a.kept += s.n
	a.stakes = append(a.stakes, s)
	return true
}

// wrong says what is wrong with an account, by what Redis has, whatever Go thinks of it.
func (a *account) wrong() string {
	out, held, unknown := Sum(a.Records(a.permits)), a.held.Load(), a.unknown.Load()
	if held <= out && (out <= held+unknown || a.late) {
		return ""
	}
	return fmt.Sprintf("%d of %d permits are out, %d are held; releases of %d are in doubt", out, a.rate,
		held, unknown)
}
