package request

import (
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Withdrawal names unowned permits by the requests of a session that may have
// been granted them: all requests after a number, whose replies never came, and
// the request with that number beyond the permits that are kept, because some of
// its callers have left (scripts/release.lua).
//
// A number names the permits exactly. A count could not, because it is unknown
// whether Redis carried the requests out.
type Withdrawal struct {
	session     any // boxed for go-redis
	after, kept int64
	reserved    []string // the records to take back, if they are those of a reservation
	creates     bool     // the request sets a rate where none is set
	Since       time.Time
}

// keptAll lets a request keep all that it was granted: it is far more than a request
// takes.
const keptAll = 1 << 52

// All returns the withdrawal of all permits of the request, which may have been carried out.
func (r *Request) All() *Withdrawal {
	return &Withdrawal{
		session: r.session, after: r.number - 1, kept: keptAll,
		creates: r.options.GivenRate != nil, Since: time.Now(),
	}
}

// Beyond returns the withdrawal of what the request was granted beyond the permits that are kept.
func (r *Request) Beyond(kept int64) *Withdrawal {
	return &Withdrawal{session: r.session, after: r.number, kept: kept, Since: time.Now()}
}

// Withdraw returns the request that carries a withdrawal out.
func (t *Target) Withdraw(w *Withdrawal) *Request {
	req := t.Release(0, nil)
	req.session, req.back = w.session, w
	return req
}

// MayCome reports whether the request of a withdrawal that has ended with err may still be carried out
// although the limiter does not exist: it has been delayed, and will create the limiter. After SessionLife,
// what it takes comes back when its interval is over.
func (w *Withdrawal) MayCome(err error) bool {
	return w != nil && w.creates && errors.Is(err, failure.ErrNotInitialized) &&
		time.Since(w.Since) < SessionLife
}

// put adds the arguments of a withdrawal, none if it is nil.
func (w *Withdrawal) put(args *arguments) {
	if w == nil {
		return
	}
	args.put(argAfter, wire.Number(w.after))
	args.put(argKept, w.kept)
	for i, record := range w.reserved {
		args.put(argReserved+i, record)
	}
}
