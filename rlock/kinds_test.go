package rlock_test

import (
	_ "embed" // testdata
	"fmt"
	"strings"
	"testing"

	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

var (
	//go:embed testdata/locks.txt
	locks string
	//go:embed testdata/late_copies.txt
	lateCopies string
)

// A lock has one holder in all processes, which may lock it several times. Among the specs are
// Redisson's own tests of its locks, which testdata/redisson.txt lists.
func TestLocks(t *testing.T) {
	var first, turns strings.Builder
	for i := range 50 {
		fmt.Fprintf(&first, "a%d waits; ", i+2)
		fmt.Fprintf(&turns, "a%d unlocks; a%d has; ", i+1, i+2)
	}
	specs := Rows(locks)
	specs["the callers of a process are served in the order in which they came"] = "" +
		"a1 locks; sleep 0s; " + first.String() + turns.String() + "a51 unlocks; free"
	tellKinds(t, specs)
}

// Each hold has a greater token, whatever call took it, and so has each Relock: the time of the server in
// µs, or one more than the last token if that is greater.
func TestTokensGrow(t *testing.T) {
	t.Parallel()
	tell(t, kinds["fenced"], map[string]string{
		"whoever holds it": "" +
			"a1 token 0; a1 locks; a1 token now; a2 refused 0s; a1 relocks; a1 token now; a1 follows; " +
			"a1 unlocks; a1 unlocks; b1 locks 1m; b1 token now; b1 follows a1; b1 unlocks; a2 takes 1m; " +
			"a2 follows b1; redis SET TOKEN 9000000000000000; a2 relocks; a2 token 9000000000000001; " +
			"a2 unlocks; a2 unlocks; a3 takes; a3 token 9000000000000002; a3 unlocks; " +
			"a4 token 9000000000000002",
	})
}

// Calls return exactly at the end of their waits or contexts, in whatever state Redis is. Locks that it
// grants later are given back.
func TestCallsReturnInTime(t *testing.T) {
	specs := map[string]string{
		"a single attempt": "" +
			"freeze b; now; within 1234ms b1 takes ! DeadlineExceeded; after 1234ms; thaw b; free",
		"Unlock unlocks though its context has ended": "" +
			"a1 locks; go cancels 0s a1 unlocks; free; a2 locks; freeze a; now; " +
			"within 1s a2 unlocks ! DeadlineExceeded; after 1s; a2 over ! Canceled; thaw a; free",
	}
	for call, steps := range map[string]string{
		"TryLock": "b1 takes 1234ms ! refused", "TryLock of silence": "b1 takes 1234ms ! ErrNoAnswer",
		"Lock":    "within 1234ms b1 locks ! DeadlineExceeded",
		"LockFor": "cancels 1234ms b1 locks 1h ! Canceled",
	} {
		if call != "TryLock" {
			specs[call+", frozen"] = "freeze b; now; " + steps + "; after 1234ms; thaw b; free"
		}
		if call != "TryLock of silence" {
			specs[call+", held"] = "a1 locks; now; " + steps + "; after 1234ms; a1 unlocks; free"
			specs[call+", frozen while it waits"] = "a1 locks; now; in 617ms freeze b; " + steps +
				"; after 1234ms; thaw b; a1 unlocks; free"
		}
	}
	tellKinds(t, specs)
}

// Close ends waits, and the contexts of holds, with ErrClosed, even if Redis does not reply. Then nothing is
// renewed, and the lock ends with its lease.
func TestClose(t *testing.T) {
	const closed = "close a; a3 has ! ErrClosed; a4 has ! ErrClosed; a1 over ! ErrClosed; " +
		"a1 unlocks ! ErrClosed; a1 relocks ! ErrClosed; a2@2 over ! ErrClosed; " +
		"a2@2 unlocks ! ErrClosed; a5 takes 1m ! ErrClosed; "
	tellKinds(t, map[string]string{
		"Redis replies": "a1 locks; a2@2 locks 1h; a3 waits; a4 waits; " + closed + "sleep 31s; free",
		"Redis is silent": "a1 locks; a2@2 locks 1h; a3 waits; a4 waits; freeze a; go a1 relocks; " + closed +
			"thaw a; sleep 31s; free",
		"Err reports the end before a goroutine ends the hold": "" +
			strings.Repeat("a1 locks 1s; sleep 1s; a1 err ! ErrLost; ", 100) +
			"a1 locks; close a; a1 err ! ErrClosed",
	})
}

// A reply or a request is lost: a lock is held once, or not at all, and unlocked as often as it is held
// (I11e). Process p sends requests again and does not notice; o sends each once, and gets an error.
func TestLostReplies(t *testing.T) {
	specs := map[string]string{}
	for _, way := range []string{"reply", "half", "late", "never"} {
		for call, steps := range map[string]string{
			"Lock": "lose p1 locks; p1 holds 1; p1 unlocks; free",
			"Relock": "" +
				"p1 locks; lose p1 relocks; p1 holds 2; p1 unlocks; p1 holds 1; p1 err; p1 unlocks; free",
			"Unlock": "p1 locks; p1 relocks; p1 relocks; lose p1 unlocks; p1 holds 2; p1 err; p1 unlocks; " +
				"p1 holds 1; lose p1 unlocks; p1 unlocks ! ErrNotHeld; free; b1 takes; b1 unlocks",
			"hand-over": "p1 locks; p2 waits; lose p1 unlocks; p2 has; hash p2 1; p2 unlocks; free",

			"Lock, sent once":   "lose o1 locks; free",
			"Relock, sent once": "o1 locks; lose o1 relocks; o1 err; o1 unlocks; free",
			"Unlock, sent once": "o1 locks; o1 relocks; o1 relocks; lose o1 unlocks; o1 err; o1 unlocks; " +
				"o1 holds 1; lose o1 unlocks; o1 unlocks ! ErrNotHeld; free; b1 takes; b1 unlocks",
			"hand-over, sent once": "" +
				"o1 locks; o2 waits; lose o1 unlocks; o2 has; hash o2 1; o2 unlocks; free",
		} {
			specs[call+", "+way] = strings.ReplaceAll(steps, "lose ", "lose "+way+" ")
		}
	}
	specs["ForceUnlock is not sent again"] = "b1 forces no; b1 locks; " + // its script is known
		"lose reply p1 forces yes ! ErrNoAnswer; free"
	tellKinds(t, specs)
}

// Requests arrive after their second copies, or after their callers have left. They change nothing.
func TestLateCopies(t *testing.T) {
	tellKinds(t, Rows(lateCopies))
}
