package rratelimiter

import (
	"crypto/rand"
	"sync"
)

// receipts are the fields that releases have left in a limiter's hash. A
// release leaves no record by which it could be known when it is sent again,
// so it writes a field of its own; when its reply has come, the field has
// served and the next release by the same RateLimiter removes it.
type receipts struct {
	mu      sync.Mutex
	settled []any // guarded by mu
}

// newReceipt returns the name of a field for one release.
func newReceipt() any { return "released:" + rand.Text() }

// take returns the receipts that can be removed.
func (r *receipts) take() []any {
	r.mu.Lock()
	defer r.mu.Unlock()
	settled := r.settled
	r.settled = nil
	return settled
}

// settle marks receipts as not needed any more.
func (r *receipts) settle(receipts ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = append(r.settled, receipts...)
}
