package rlock_test

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

const lockPage = "../docs/lock.md"

// The numbers of the rules on that page.
const (
	ruleOfLocks = iota + 1
	ruleOfFairLocks
	ruleOfShards
)

// allKinds are the names of restrictedKinds.
var allKinds = slices.Sorted(maps.Keys(restrictedKinds))

func lockRights(t *testing.T, which int) []string {
	t.Helper()
	return redistest.Rights(t, lockPage, "app", which)
}

// does has two processes of the user do a action with a lock of a kind.
func (g *restricted) does(d action, kind string) error {
	g.Helper()
	noError(g, g.look.FlushDB(g.Context()).Err())
	ctx, cancel := context.WithTimeout(g.Context(), 2*patience)
	defer cancel()
	one, end := open(g, g.rdb)
	defer end()
	renewing, end := open(g, g.rdb, rlock.WithWatchdogTimeout(3*time.Second))
	defer end()
	other, end := open(g, g.rdb)
	defer end()
	of := restrictedKinds[kind]
	return d.do(ctx, &parties{
		restricted: g, one: of(one, restrictedName), other: of(other, restrictedName),
		renewed: of(renewing, restrictedName),
	})
}

// tries does the actions with locks of some kinds, or the one of these that has a name. It returns what has
// failed, and what Redis has denied.
func (g *restricted) tries(kinds []string, name, without string) (failed map[string]error, denied []string) {
	g.Helper()
	redistest.Denied(g, g.nodes...) // before
	failed = map[string]error{}
	for _, kind := range kinds {
		for _, d := range actions {
			full := d.name + ", " + kind
			if d.kind != "" && d.kind != kind || name != "" && name != full ||
				d.only != "" && without != "" && d.only != without {
				continue
			}
			if err := g.does(d, kind); err != nil {
				failed[full] = err
			}
		}
	}
	return failed, redistest.Denied(g, g.nodes...)
}

// enough expects these rights to be enough for locks of some kinds.
func (g *restricted) enough(rights, kinds []string) {
	g.Helper()
	redistest.Allow(g, "app", rights, g.nodes...)
	g.longest = patience
	if failed, denied := g.tries(kinds, "", ""); len(failed)+len(denied) > 0 {
		g.Fatalf("with %q these fail: %v; denied are %q", rights, failed, denied)
	}
}

// needs expects a action to fail without one of these rights, or "nothing". Redis has denied what the right
// is about in any case.
func (g *restricted) needs(rights []string, right, fails string) {
	g.Helper()
	rights = slices.DeleteFunc(slices.Clone(rights), func(r string) bool { return r == right })
	redistest.Allow(g, "app", rights, g.nodes...)
	name := fails
	g.longest = 2 * time.Second
	if fails == "nothing" {
		name, g.longest = "", patience
	}
	if strings.HasPrefix(name, "a place,") { // it is renewed after 10 s
		g.longest = 15 * time.Second
	}
	failed, denied := g.tries(allKinds, name, right)
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
		wantText(g, err, restrictedName)
	}
}

// With the rights in docs/lock.md locks of each kind work, and without any of them what the page says
// fails.
func TestRights(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	server := redistest.Start(t)
	rdb := server.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	g := newRestricted(t, rdb, server.Admin())
	rights := lockRights(t, ruleOfLocks)
	g.enough(rights, []string{"plain", "fenced"})
	rights = append(rights, lockRights(t, ruleOfFairLocks)...)
	g.enough(rights, allKinds)
	fails := redistest.Needs(t, lockPage)
	for _, right := range rights[2:] { // without on, and the password
		action, found := fails[right]
		if !found {
			t.Errorf("%s: the page does not say what needs it", right)
		}
		delete(fails, right)
		g.needs(rights, right, action)
	}
	for _, right := range lockRights(t, ruleOfShards) {
		delete(fails, right)
	}
	if len(fails) > 0 {
		t.Errorf("the page names rights that no rule has: %v", fails)
	}
}

// On a cluster the rights for shard channels take the place of those for plain channels.
func TestRightsOnACluster(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = "app", "secret" })
	var nodes []*redis.Client
	for _, s := range cluster.Servers {
		nodes = append(nodes, s.Admin())
	}
	g := newRestricted(t, rdb, nodes[cluster.Node(t, restrictedName)])
	g.nodes = nodes
	const ruleOfCluster = 2
	shards := lockRights(t, ruleOfShards)
	rights := slices.Concat(lockRights(t, ruleOfLocks), lockRights(t, ruleOfFairLocks), shards,
		redistest.Rights(t, "../docs/keys.md", "app", ruleOfCluster))
	rights = slices.DeleteFunc(rights, func(right string) bool {
		return slices.Contains([]string{"+publish", "+subscribe", "+unsubscribe"}, right)
	})
	g.enough(rights, allKinds)
	fails := redistest.Needs(t, lockPage)
	for _, right := range shards {
		g.needs(rights, right, fails[right])
	}

	// Without the right to ask for shard channels the error names that right, and no new Client is needed.
	const asks = "+pubsub|shardnumsub"
	redistest.Allow(t, "app", slices.DeleteFunc(slices.Clone(rights), func(right string) bool {
		return right == asks
	}), nodes...)
	lock := g.client().Lock(restrictedName)
	wantText(t, errOf(lock.Lock(within(t))), "NOPERM", restrictedName, asks[1:])
	wantText(t, errOf(lock.ForceUnlock(within(t))), "NOPERM", restrictedName, asks[1:])
	redistest.Allow(t, "app", rights, nodes...)
	noError(t, errOf(lock.Lock(within(t))))
}
