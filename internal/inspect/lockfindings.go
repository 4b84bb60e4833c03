package inspect

import (
	"fmt"
	"slices"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// find returns what is wrong with a lock.
func (l *Lock) find() []Finding {
	found := []Finding{}
	if !l.There() {
		return found
	}
	if l.apart {
		return append(found, l.wrong("braces", "Give the lock another name.", "The braces in the name put "+
			"its keys into different slots: on this cluster a lock of Java is never unlocked.")...)
	}
	if found = append(found, l.misused()...); len(found) > 0 {
		return found
	}
	found = append(found, l.held()...)
	found = append(found, l.token()...)
	found = append(found, l.queue()...)
	if l.split {
		found = append(found, remark("", "On a cluster, choose another name. Elsewhere nothing is wrong.",
			"The braces in the name put its keys into different slots of a cluster.")...)
	}
	return found
}

// wrong returns a single finding, with its label.
func (*Lock) wrong(label, mend, what string, args ...any) []Finding {
	found := one("", mend, what, args...)
	found[0].label = label
	return found
}

// misused says which key is of another kind.
func (l *Lock) misused() []Finding {
	for i, kind := range map[int]string{lockToken: "string", lockQueue: "list", lockTimeouts: "zset"} {
		if k := l.Keys[i]; k.There() && k.Kind != kind {
			return l.wrong("other", "Another program has written it: UNLINK "+words.Name(k.Name),
				"%q is a %s, must be a %s.", k.Name, k.Kind, kind)
		}
	}
	return nil
}

// held says what is wrong with how the lock is held.
func (l *Lock) held() (found []Finding) {
	const force = "When nobody works under it any more: rrl unlock --force."
	if len(l.Owners) > 1 {
		found = l.wrong("two owners", force, "%d owners hold the lock at once, must be one.", len(l.Owners))
	}
	if len(l.Owners) == 0 || l.TTL() >= 0 {
		return found
	}
	what := "The lock has no TTL: it does not end if its holder dies."
	switch l.Kind {
	case Fenced:
		what += " A fenced lock of Java then takes a refusal for a grant."
	case Fair:
		what += " Waiters of Java then ask without a pause."
	}
	mend := "A holder that renews it sets one within 10 s. " + force
	return append(found, l.wrong("no TTL", mend, "%s", what)...)
}

// token says what is wrong with the token.
func (l *Lock) token() (found []Finding) {
	key := &l.Keys[lockToken]
	if !key.There() {
		return nil
	}
	if _, ok := integer(l.Token); !ok {
		found = l.wrong("token", "SET it to a number above each token that was given.",
			"The token is %q, no integer: nobody can get the lock.", l.Token)
	}
	if key.TTL >= 0 {
		found = append(found, l.wrong("token", "PERSIST "+words.Name(key.Name),
			"The token expires in %s: then tokens begin again at 1, and what has seen a greater one "+
				"refuses each holder.", words.Span(key.TTL))...)
	}
	if l.Kind == Fair {
		found = append(found, remark("", "Use a name for one kind of lock only.",
			"There are a token and a queue: the name is used for a fenced and for a fair lock, and waiters "+
				"of one are not told of an unlock of the other.")...)
	}
	return found
}

// queue says what is wrong with the waiters of a fair lock.
func (l *Lock) queue() []Finding {
	if l.Kind != Fair {
		return nil
	}
	key, timeouts := words.Name(l.Keys[lockQueue].Name), words.Name(l.Keys[lockTimeouts].Name)
	both := fmt.Sprintf("UNLINK %s %s: who waits queues again, when its wait for the holder ends.", key,
		timeouts)
	unknown := func(w Waiter) bool { return w.Until == nil }
	var found []Finding
	switch n := count(l.Waiters, unknown); {
	case len(l.Waiters) == 0 || !l.allScores || n == 0:
	case l.timeouts == 0:
		found = l.wrong("jam", both, "%q is lost: nobody knows how long those in the queue count, so "+
			"Java never removes them. Nobody gets the lock once the first of them has gone.",
			l.Keys[lockTimeouts].Name)
	case unknown(l.Waiters[0]):
		found = l.wrong("jam", both, "The head of the queue, %q, has no time until which it counts: Java "+
			"never removes it. If it has gone, nobody gets the lock, though nobody holds it.",
			l.Waiters[0].Owner)
	default:
		found = l.wrong("jam ahead", both, "Waiters that have no time until which they count: %d. One that "+
			"has gone keeps all others out when it is the head.", n)
	}
	if owner, ok := l.twice(); ok {
		found = append(found, l.wrong("twice", fmt.Sprintf("LREM %s -1 %s", key, words.Name(owner)),
			"%q is in the queue twice: when it has had the lock, its second place keeps all others out.",
			owner)...)
	}
	if len(l.Waiters) > 0 && l.Waiters[0].Dead {
		found = append(found, remark("", "The next attempt or unlock of anybody removes it.",
			"The head of the queue, %q, counts as dead since %s: those behind it are not told of an unlock.",
			l.Waiters[0].Owner, words.Span(-l.left(*l.Waiters[0].Until)))...)
	}
	if rest := l.Waiting - int64(len(l.Waiters)); rest > 0 {
		found = append(found, remark("", fmt.Sprintf("rrl inspect --records reads up to %d.", Most),
			"Waiters that were not read: %d of %d.", rest, l.Waiting)...)
	}
	return found
}

// twice returns an owner that is in the queue more than once, if there is one.
func (l *Lock) twice() (string, bool) {
	seen := make(map[string]bool, len(l.Waiters))
	i := slices.IndexFunc(l.Waiters, func(w Waiter) bool {
		again := seen[w.Owner]
		seen[w.Owner] = true
		return again
	})
	if i < 0 {
		return "", false
	}
	return l.Waiters[i].Owner, true
}

// count returns how many waiters are so.
func count(waiters []Waiter, so func(Waiter) bool) (n int) {
	for _, w := range waiters {
		if so(w) {
			n++
		}
	}
	return n
}
