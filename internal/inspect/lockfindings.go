package inspect

import (
	"fmt"
	"slices"

	"github.com/redisson-go/rratelimiter/internal/words"
)

// find returns the findings about a lock.
func (l *Lock) find() []Finding {
	found := []Finding{}
	switch {
	case !l.There():
		return found
	case l.apart:
		return append(found, wrong("", "braces", "Give the lock another name.",
			otherSlots+": on this cluster a lock of Java is never unlocked.")...)
	}
	if found = append(found, l.misused()...); len(found) > 0 {
		return found
	}
	found = slices.Concat(found, l.held(), l.token(), l.queue())
	if l.split {
		found = append(found, braces("")...)
	}
	return found
}

// misused names a key of another kind.
func (l *Lock) misused() []Finding {
	for i, kind := range map[int]string{lockToken: "string", lockQueue: "list", lockTimeouts: "zset"} {
		if k := l.Keys[i]; k.There() && k.Kind != kind {
			return wrong("", "another program",
				"Another program has written it: UNLINK "+words.Name(k.Name),
				"%q is a %s, must be a %s.", k.Name, k.Kind, kind)
		}
	}
	return nil
}

// held describes what is wrong with the hold.
func (l *Lock) held() (found []Finding) {
	const force = "When no holder works under it any more: rrl unlock --force."
	if len(l.Owners) > 1 {
		found = wrong("", "two owners", force, "%d owners hold the lock at once, must be one.", len(l.Owners))
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
	return append(found, wrong("", "no TTL", mend, "%s", what)...)
}

// token describes what is wrong with the token.
func (l *Lock) token() (found []Finding) {
	key := &l.Keys[lockToken]
	if !key.There() {
		return nil
	}
	if _, ok := integer(l.Token); !ok {
		found = wrong("", "token", "SET it to a number above each token that was given.",
			"The token is %q, not an integer: no client can get the lock.", l.Token)
	}
	if key.TTL >= 0 {
		found = append(found, wrong("", "token", "PERSIST "+words.Name(key.Name),
			"The token expires in %s: then tokens begin again at 1, and whatever has seen a greater one "+
				"refuses each holder.", words.Span(key.TTL))...)
	}
	if l.Kind == Fair {
		found = append(found, remark("", "two kinds", "Use a name for one kind of lock only.",
			"There are a token and a queue: the name is used for a fenced and for a fair lock, and waiters "+
				"of one are not notified of an unlock of the other.")...)
	}
	return found
}

// queue describes what is wrong with the waiters of a fair lock.
func (l *Lock) queue() (found []Finding) {
	if l.Kind != Fair {
		return nil
	}
	key, timeouts := words.Name(l.Keys[lockQueue].Name), words.Name(l.Keys[lockTimeouts].Name)
	both := fmt.Sprintf("UNLINK %s %s: waiters queue again when their wait for the holder ends.", key,
		timeouts)
	unknown, places := 0, make(map[string]int, len(l.Waiters))
	for _, w := range l.Waiters {
		if places[w.Owner]++; w.Until == nil {
			unknown++
		}
	}
	switch {
	case len(l.Waiters) == 0 || !l.allScores || unknown == 0:
	case l.timeouts == 0:
		found = wrong("", "jam", both, "%q is lost: without timeouts Java never removes a waiter, so the "+
			"lock stays free for ever once the first waiter has gone.", l.Keys[lockTimeouts].Name)
	case l.Waiters[0].Until == nil:
		found = wrong("", "jam", both, "The head of the queue, %q, has no timeout: Java never removes it. "+
			"If it has gone, no waiter gets the lock, although the lock is free.", l.Waiters[0].Owner)
	default:
		found = wrong("", "jam ahead", both, "Waiters without a timeout: %d. If one of them has gone, no "+
			"other waiter gets the lock once it is the head.", unknown)
	}
	for _, w := range l.Waiters {
		if places[w.Owner] > 1 {
			mend := fmt.Sprintf("LREM %s -1 %s", key, words.Name(w.Owner))
			found = append(found, wrong("", "twice", mend, "%q is in the queue twice: after it has had the "+
				"lock, its second place stops all other waiters.", w.Owner)...)
			break
		}
	}
	if len(l.Waiters) > 0 && l.Waiters[0].Dead {
		late := l.At.Sub(*l.Waiters[0].Until).Milliseconds()
		found = append(found, remark("", "dead head", "The next attempt or unlock of any client removes it.",
			"The head of the queue, %q, counts as dead since %s: the waiters behind it are not notified of "+
				"an unlock.", l.Waiters[0].Owner, words.Span(late))...)
	}
	if rest := l.Waiting - int64(len(l.Waiters)); rest > 0 {
		mend := fmt.Sprintf("rrl inspect --records reads up to %d.", Most)
		found = append(found, remark("", "not read", mend, "Waiters that were not read: %d of %d.",
			rest, l.Waiting)...)
	}
	return found
}
