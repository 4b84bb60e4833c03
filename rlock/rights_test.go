package rlock_test

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The lock page says which rights a user needs, for a lock of this name.
const (
	lockPage       = "../docs/lock.md"
	restrictedName = "report"
)

// The numbers of the rules on that page.
const (
	ruleOfLocks = iota + 1
	ruleOfFairLocks
	ruleOfShards
)

// actions are what the page says that a user does with a free lock, and drive every path of every script.
// LONG is how long they wait for what must come. Those of the second map are for one kind of lock.
var (
	actions = map[string]string{
		"Lock":              "a1 locks",
		"Unlock":            "a1 locks; a1 unlocks",
		"Relock":            "a1 locks; a1 relocks; a1 holds 2; a1 unlocks; a1 unlocks",
		"a refused TryLock": "a1 locks; b1 refused 0s",
		"a wait that ends":  "a1 locks; b1 refused 1s; queue",
		"a look":            "a sees none; a lasts -2; a1 locks; a1 follows",
		"ForceUnlock":       "a1 locks; b1 forces yes",
		"a late Unlock":     "a1 locks; redis DEL LOCK; a1 unlocks ! ErrLost",
		"a renewal":         "w1 locks; redis PEXPIRE LOCK 2000; lease 2001ms..3s",
		"a wake-up":         "a1 locks; b1 waits LONG 1h; a1 unlocks; b1 has",
		"a hand-over": "" +
			"a1 locks; a2 waits LONG 1h; a3 waits LONG 1h; a1 unlocks; a2 has; a2 unlocks; a3 has; " +
			"a3 unlocks",
	}
	actionsOf = map[string]map[string]string{
		"plain": {
			"the first call":                "redis SCRIPT FLUSH; a1 locks",
			"the end of an idempotency key": "a1 locks; a1 unlocks; idempotency 0",
		},
		"fair": {
			"a dead waiter":          "put java:1 -1s; a1 takes",
			"a wait of some seconds": "a1 locks; now; b1 waits; called ping; b1 leaves",
			"a waiter that leaves": "" +
				"a1 locks; b1 waits; b2 waits; now; b1 leaves; called unsubscribe sunsubscribe; " +
				"a1 unlocks; b2 has",
			"a place": "" +
				"a1 locks; b1 waits LONG 1h; place b1 22s..30s",
		},
	}

	// takeLong are the actions that are done only without the right that they are about.
	takeLong = map[string]string{"a wait of some seconds, fair": "+ping", "a place, fair": "+lrange"}
)

// A restricted is servers, and an env of a user with few rights.
type restricted struct {
	*env
	nodes []*redis.Client // with all rights
}

// tries does the actions with locks of some kinds, or the one of these that has a name, if it does so
// without a right. It returns what has failed, and what Redis has denied.
func (g *restricted) tries(kindsOf []string, name, without string, wait time.Duration) (
	failed map[string]error, denied []string,
) {
	g.Helper()
	redistest.Denied(g, g.nodes...) // before
	failed = map[string]error{}
	for _, kind := range kindsOf {
		all := maps.Clone(actions)
		maps.Copy(all, actionsOf[kind])
		for action, steps := range all {
			full := action + ", " + kind
			long := takeLong[full] != "" && without != ""
			if name != "" && name != full || long && takeLong[full] != without {
				continue
			}
			NoError(g, g.look.FlushDB(g.Context()).Err())
			p := newPlay(g.env, kinds[kind])
			if err := p.tells(strings.ReplaceAll(steps, "LONG", wait.String())); err != nil {
				failed[full] = err
			}
			for _, c := range p.processes {
				_ = c.limiters.Close()
			}
		}
	}
	return failed, redistest.Denied(g, g.nodes...)
}

// enough expects these rights to be enough for locks of some kinds.
func (g *restricted) enough(rights []string, kinds ...string) {
	g.Helper()
	redistest.Allow(g, "app", rights, g.nodes...)
	if failed, denied := g.tries(kinds, "", "", patience); len(failed)+len(denied) > 0 {
		g.Fatalf("with %q these fail: %v; denied are %q", rights, failed, denied)
	}
}

// needs expects an action to fail without one of these rights, or "nothing". Redis has denied what the right
// is about in any case.
func (g *restricted) needs(rights []string, right, fails string) {
	g.Helper()
	redistest.Allow(g, "app", without(rights, right), g.nodes...)
	name, long := fails, 2*time.Second
	switch {
	case fails == "nothing":
		name, long = "", patience
	case strings.HasPrefix(name, "a place,"): // it is renewed after 10 s
		long = 15 * time.Second
	}
	failed, denied := g.tries([]string{"plain", "fenced", "fair"}, name, right, long)
	err := failed[fails]
	switch {
	case !slices.ContainsFunc(denied, func(object string) bool {
		is, _ := path.Match(right[1:], object)
		return is
	}):
		g.Errorf("%s: %q is denied without it", right, denied)
	case fails == "nothing" && len(failed) > 0:
		g.Errorf("%s: these fail without it: %v", right, failed)
	case fails != "nothing" && err == nil:
		g.Errorf("%s: %q does not fail without it", right, fails)
	case err != nil && strings.Contains(err.Error(), "NOPERM"):
		WantText(g, err, restrictedName)
	}
}

// without returns rights but some.
func without(rights []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return slices.Contains(some, r) })
}

// With the rights in docs/lock.md locks of each kind work, and without any of them what the page says
// fails.
func TestRights(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	rules := func(which int) []string { return redistest.Rights(t, lockPage, "app", which) }
	server := redistest.Start(t)
	redistest.Allow(t, "app", rules(ruleOfLocks), server.Admin())
	s := onServer(t, server, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	s.named(restrictedName)
	g := &restricted{s, []*redis.Client{server.Admin()}}
	g.enough(rules(ruleOfLocks), "plain", "fenced")
	rights := append(rules(ruleOfLocks), rules(ruleOfFairLocks)...)
	g.enough(rights, "plain", "fenced", "fair")
	fails := redistest.Needs(t, lockPage)
	for _, right := range rights[2:] { // without on, and the password
		action, found := fails[right]
		if !found {
			t.Errorf("%s: the page does not say what needs it", right)
		}
		delete(fails, right)
		g.needs(rights, right, action)
	}
	for _, right := range rules(ruleOfShards) {
		delete(fails, right)
	}
	if len(fails) > 0 {
		t.Errorf("the page names rights that no rule has: %v", fails)
	}
}

// On a cluster the rights for shard channels take the place of those for plain channels.
func TestRightsOnACluster(t *testing.T) {
	s := onCluster(t, func(o *redis.ClusterOptions) { o.Username, o.Password = "app", "secret" })
	s.named(restrictedName)
	g := &restricted{env: s}
	for _, server := range s.cluster.Servers {
		g.nodes = append(g.nodes, server.Admin())
	}
	s.look = g.nodes[s.cluster.Node(t, restrictedName)]
	const ruleOfCluster = 2
	rules := func(which int) []string { return redistest.Rights(t, lockPage, "app", which) }
	shards := rules(ruleOfShards)
	rights := without(slices.Concat(rules(ruleOfLocks), rules(ruleOfFairLocks), shards,
		redistest.Rights(t, "../docs/keys.md", "app", ruleOfCluster)),
		"+publish", "+subscribe", "+unsubscribe")
	g.enough(rights, "plain", "fenced", "fair")
	fails := redistest.Needs(t, lockPage)
	for _, right := range shards {
		g.needs(rights, right, fails[right])
	}

	// Without the right to ask for shard channels the error names that right, and no new Client is needed.
	const asks = "+pubsub|shardnumsub"
	redistest.Allow(t, "app", without(rights, asks), g.nodes...)
	lock := g.client().Lock(restrictedName)
	WantText(t, ErrOf(lock.Lock(within(t))), "NOPERM", restrictedName, asks[1:])
	WantText(t, ErrOf(lock.ForceUnlock(within(t))), "NOPERM", restrictedName, asks[1:])
	redistest.Allow(t, "app", rights, g.nodes...)
	NoError(t, ErrOf(lock.Lock(within(t))))
}
