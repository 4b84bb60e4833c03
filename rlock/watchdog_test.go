package rlock_test

import (
	_ "embed" // testdata
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

//go:embed testdata/renewal.txt
var renewal string

// A hold is renewed each third of its lease, as long as it is held, and ends when its lock is lost.
func TestRenewal(t *testing.T) {
	const lost = "a1 err; now; a1 over ! ErrLost; after 0s..10s; a1 err ! ErrLost; a1 unlocks ! ErrLost; " +
		"a1 relocks ! ErrLost; now; sleep 21s; sent 2; a2@2 err; "
	specs := Rows(renewal)
	maps.Copy(specs, map[string]string{
		"ForceUnlock": "a1 locks; a2@2 locks; b1 forces yes; " + lost + "free",
		"DEL":         "a1 locks; a2@2 locks; redis DEL LOCK; " + lost + "free",
		"another owner": "a1 locks; a2@2 locks; redis DEL LOCK; redis HSET LOCK java:1 1; " + lost +
			"hash java:1 1",
		"another type": "a1 locks; a2@2 locks; redis SET LOCK text; " + lost + "redis GETRANGE LOCK 0 1",
		"whatever holds of the lock have just ended in its process": "" +
			strings.Repeat("a1 takes; a1 relocks; a1 unlocks; a1 unlocks; ", 10) + "a2 takes; sleep 5m; " +
			"a2 err; a2 holds 1; a2 unlocks; sleep 1m; a sees none",
	})
	tellKinds(t, specs)
}

// Thousands of holds take one script call for 100 of them each third of a lease, though they were not taken
// at one time and each reply comes late. None is lost.
func TestManyHoldsAreRenewed(t *testing.T) {
	inBubble(t, func(s *env) {
		const locks = 1000
		p := newPlay(s, kinds["plain"])
		client := p.process("a")
		holds := make([]*rlock.Hold, locks)
		for i := range holds {
			holds[i] = must(client.locks.Lock(fmt.Sprint(s.name, i)).Lock(s.Context()))(s)
			time.Sleep(time.Millisecond)
		}
		NoError(s, p.tells("sleep 11s; slow a 300ms; now; sleep 40s; sent 40")) // the script is known by then
		for _, h := range holds {
			NoError(s, h.Err())
		}
		want(s, "locks", must(s.look.DBSize(s.Context()).Result())(s), locks)
		for _, h := range holds[1:] {
			NoError(s, h.Unlock(s.Context()))
		}
		NoError(s, p.tells("sleep 10s; now; sleep 40s; sent 4"))
	})
}

// A lock that the user may not use any more is lost, and takes no others with it that are renewed in the
// same script call.
func TestRenewalSurvivesADeniedNeighbour(t *testing.T) {
	s := onRights(t, "allkeys", "allchannels", "+@all")
	ctx := within(t)
	locks := s.client(rlock.WithWatchdogTimeout(9 * time.Second))
	denied := must(locks.Lock("denied").Lock(ctx))(t)
	const others = 9 // ten share a script call
	var holds []*rlock.Hold
	for i := range others {
		holds = append(holds, must(locks.Lock(fmt.Sprintf("allowed:%d", i)).Lock(ctx))(t))
	}
	s.allow("~allowed:*", "~redisson_*", "allchannels", "+@all")
	comes(t, denied.Context().Done())
	for _, h := range holds {
		NoError(t, h.Err())
		NoError(t, h.Unlock(ctx))
	}
}

// onRights returns an env whose clients are those of a user with some rights.
func onRights(t *testing.T, rights ...string) *env {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	redistest.Allow(t, "app", append([]string{"on", "nopass"}, rights...), server.Admin())
	return onServer(t, server, func(o *redis.Options) { o.Username, o.Password = "app", "any" })
}

// allow gives these rights to the user.
func (s *env) allow(rights ...string) {
	s.Helper()
	redistest.Allow(s, "app", append([]string{"on", "nopass"}, rights...), s.server.Admin())
}
