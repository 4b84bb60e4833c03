package compare

import (
	"fmt"

	"github.com/redisson-go/rratelimiter/internal/grants"
)

// A ledger holds the permits that were granted and not given back, by the answers
// alone: to all clients in OVERALL, and to Go in PER_CLIENT. Java's own pair is left out, because
// it follows the rate for which it was created (B9).
type ledger map[string]grants.Grants

// overall is the account of all clients. Each client also has an account of its own.
const overall = "overall"

func ownAccount(by int) string { return fmt.Sprint("own", by) }

// check enters a step, and expects that no window ever holds more permits than
// the rate. Setting a rate without the permits that are taken begins a new
// count.
func (l ledger) check(o observation, by int) *Divergence {
	was, is := o.before.settings(), o.got.settings()
	account := overall
	if is.typ == 1 {
		account = ownAccount(by)
	}
	if was.interval != is.interval {
		for name := range l {
			l.expire(name, o.now, was.interval) // permits that have come back do not count again
		}
	}
	switch {
	case o.got.err != "" || o.got.result == "false":
	case o.Op == Delete, o.forgets():
		delete(l, overall)
		delete(l, ownAccount(by))
	case o.Op == Release && o.Permits > 0:
		l.expire(account, o.now, was.interval)
		l[account].Release(o.Permits, byGo)
	case o.Op == TryAcquire && (is.typ != 1 || by == byGo):
		return l.take(o, by, account)
	}
	return nil
}

// forgets reports whether the step sets a rate without the permits that are
// taken.
func (o observation) forgets() bool {
	was, is := o.before.settings(), o.got.settings()
	return o.setsRate() && (!o.KeepState || was.typ != is.typ || !was.whole)
}

// take enters permits that were granted.
func (l ledger) take(o observation, by int, account string) *Divergence {
	c := o.got.settings()
	l[account] = append(l[account], grants.Grant{At: o.now, Permits: o.Permits, Of: by})
	l.expire(account, o.now, c.interval)
	taken := l[account].Sum()
	if taken <= c.rate {
		return nil
	}
	want := o.got
	want.answer = yes(false)
	return o.diverges(fmt.Sprintf("%d permits in a window: %v", taken, l[account]), want)
}

// expire drops grants that no longer count.
func (l ledger) expire(account string, now, interval int64) {
	l[account] = l[account].Within(now, interval)
}
