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

// ruleOfCluster is the number of the rule for clusters of docs/keys.md.
const ruleOfCluster = 2

// needs has an action that fails without each right, except the rights without which no call fails, by the
// page.
var needs = map[string]string{
	"Lock, plain": "~report ~redisson_*:{report}* " +
		"+evalsha +exists +hset +pexpire +pubsub|shardnumsub",
	"Unlock, plain":                        "+set +del +hexists",
	"a late Unlock, plain":                 "+get",
	"Relock, plain":                        "+hget",
	"a refused TryLock, plain":             "+pttl +hlen +hkeys",
	"a hand-over, plain":                   "+hdel",
	"the first call, plain":                "+eval",
	"the end of an idempotency key, plain": "+unlink",
	"a wake-up, plain": "&redisson_lock__channel:{report}* " +
		"+publish +subscribe +spublish +ssubscribe",
	"Lock, fenced":        "+incrby +time",
	"Lock, fair":          "+lindex +zrem +lrem",
	"a wake-up, fair":     "+rpush +zadd +zscore",
	"a dead waiter, fair": "+lpop",
	"a place, fair":       "+lrange",
}

// needing returns the action that needs a right, or an empty string.
func needing(right string) string {
	for action, rights := range needs {
		if slices.Contains(strings.Fields(rights), right) {
			return action
		}
	}
	return ""
}

// actions are what a user does with a free lock, and drive every path of every script.
// Those of the second map are for one kind of lock.
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
		"a renewal":         "w1 locks; redis PEXPIRE LOCK 60000; lease 0s..3s",
		"a wake-up":         "a1 locks; b1 waits; a1 unlocks; b1 has",
		"a hand-over": "" +
			"a1 locks; a2 waits; a3 waits; a1 unlocks; a2 has; a2 unlocks; a3 has; a3 unlocks",
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
			"a place": "a1 locks 1s; b1 waits; b2 waits; ends b2 15s; place b2 22s..30s",
		},
	}
)

// A restricted is an env of a user with few rights, and its servers.
type restricted struct {
	*env
	nodes []*redis.Client // with all rights
}

// tries does the actions with locks of some kinds, or only the action with a name. Each step has a timeout.
// It returns what has failed, and what Redis has denied.
func (g *restricted) tries(kindsOf []string, name string, patience time.Duration) (
	failed map[string]error, denied []string,
) {
	g.Helper()
	redistest.Denied(g, g.nodes...) // before
	failed, g.patience = map[string]error{}, patience
	for _, kind := range kindsOf {
		all := maps.Clone(actions)
		maps.Copy(all, actionsOf[kind])
		for action, steps := range all {
			full := action + ", " + kind
			if name != "" && name != full {
				continue
			}
			p := newPlay(g.env, kinds[kind])
			if err := p.tells(steps); err != nil {
				failed[full] = err
			}
			for _, c := range p.processes {
				_ = c.limiters.Close()
			}
			NoError(g, g.look.FlushDB(g.Context()).Err())
		}
	}
	return failed, redistest.Denied(g, g.nodes...)
}

// enough expects rights to be enough for locks of some kinds.
func (g *restricted) enough(rights []string, kinds ...string) {
	g.Helper()
	redistest.Allow(g, "app", rights, g.nodes...)
	failed, denied := g.tries(kinds, "", patience)
	denied = redistest.Without(denied, "client") // go-redis names itself: harmless
	if len(failed)+len(denied) > 0 {
		g.Fatalf("with %q these fail: %v; denied are %q", rights, failed, denied)
	}
}

// need expects an action to fail without each of some rights, and none without the rights that the page
// spares. In both cases Redis must have denied what the right is about.
func (g *restricted) need(rights, some []string) {
	g.Helper()
	all := []string{"plain", "fenced", "fair"}
	spare := redistest.Listed(g, lockPage, "No call fails without these rights:")
	spare = slices.DeleteFunc(spare, func(right string) bool { return !slices.Contains(some, right) })
	for _, right := range redistest.Without(some, spare...) {
		action := needing(right)
		redistest.Allow(g, "app", redistest.Without(rights, right), g.nodes...)
		failed, denied := g.tries(all, action, 2*time.Second)
		for i := 0; failed[action] == nil && i < 3; i++ { // a busy machine hands a lock over by another path
			failed, denied = g.tries(all, action, 2*time.Second)
		}
		err := failed[action]
		g.denied(right, denied)
		if err == nil {
			g.Errorf("%s: %q does not fail without it", right, action)
		} else if strings.Contains(err.Error(), "NOPERM") {
			WantText(g, err, restrictedName)
		}
	}
	redistest.Allow(g, "app", redistest.Without(rights, spare...), g.nodes...)
	failed, denied := g.tries(all, "", patience)
	for _, right := range spare {
		g.denied(right, denied)
	}
	if len(failed) > 0 {
		g.Errorf("%q: these fail without them: %v", spare, failed)
	}
}

// denied expects Redis to have denied what a right is about.
func (g *restricted) denied(right string, denied []string) {
	g.Helper()
	if !slices.ContainsFunc(denied, func(object string) bool {
		is, _ := path.Match(right[1:], object)
		return is
	}) {
		g.Errorf("%s: %q is denied without it", right, denied)
	}
}

// rulesOf returns some rules of the page together.
func rulesOf(t *testing.T, which ...int) (rights []string) {
	t.Helper()
	for _, which := range which {
		rights = append(rights, redistest.Rights(t, lockPage, "app", which)...)
	}
	return rights
}

// restrictedOn returns an env on a server, whose clients are the user of the page.
func restrictedOn(t *testing.T, server *redistest.Server) *restricted {
	t.Helper()
	redistest.Allow(t, "app", []string{"on", ">secret"}, server.Admin())
	s := onServer(t, server, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	s.named(restrictedName)
	return &restricted{s, []*redis.Client{server.Admin()}}
}

// restrictedOnNodes is restrictedOn for a cluster.
func restrictedOnNodes(t *testing.T, c *redistest.Cluster) *restricted {
	t.Helper()
	s := onNodes(t, c, func(o *redis.ClusterOptions) { o.Username, o.Password = "app", "secret" })
	s.named(restrictedName)
	g := &restricted{env: s}
	for _, server := range c.Servers {
		g.nodes = append(g.nodes, server.Admin())
	}
	s.look = g.nodes[c.Node(t, restrictedName)]
	return g
}

// With the rights in docs/lock.md locks of each kind work, and without any of them a call fails.
func TestRights(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	g := restrictedOn(t, redistest.Start(t))
	g.enough(rulesOf(t, ruleOfLocks), "plain", "fenced")
	rights := rulesOf(t, ruleOfLocks, ruleOfFairLocks)
	g.enough(rights, "fair")
	g.need(rights, rights[2:]) // without on, and the password
}

// On Redis 6 the rules follow resetchannels, and a cluster needs +pubsub in place of the rights for shards.
func TestRightsOnRedis6(t *testing.T) {
	t.Setenv("REDIS_SERVER", redistest.Releases[1].Binary(t))
	rights := append([]string{"resetchannels"}, rulesOf(t, ruleOfLocks, ruleOfFairLocks)...)
	restrictedOn(t, redistest.Start(t)).enough(rights, "plain", "fenced", "fair")
	g := restrictedOnNodes(t, redistest.StartCluster(t))
	g.enough(slices.Concat(rights, redistest.Rights(t, "../docs/keys.md", "app", ruleOfCluster),
		[]string{"+pubsub"}), "plain", "fenced", "fair")
}

// On a cluster the rights for shard channels take the place of those for plain channels.
func TestRightsOnACluster(t *testing.T) {
	t.Parallel()
	g := restrictedOnNodes(t, redistest.StartCluster(t))
	shards := rulesOf(t, ruleOfShards)
	rights := redistest.Without(slices.Concat(rulesOf(t, ruleOfLocks, ruleOfFairLocks), shards,
		redistest.Rights(t, "../docs/keys.md", "app", ruleOfCluster)),
		"+publish", "+subscribe", "+unsubscribe")
	g.enough(rights, "plain", "fenced", "fair")
	g.need(rights, shards)

	// Without the right to ask for shard channels the error names that right, and no new Client is needed.
	const asks = "+pubsub|shardnumsub"
	redistest.Allow(t, "app", redistest.Without(rights, asks), g.nodes...)
	lock := g.client().Lock(restrictedName)
	WantText(t, ErrOf(lock.Lock(within(t))), "NOPERM", restrictedName, asks[1:])
	WantText(t, ErrOf(lock.ForceUnlock(within(t))), "NOPERM", restrictedName, asks[1:])
	redistest.Allow(t, "app", rights, g.nodes...)
	NoError(t, ErrOf(lock.Lock(within(t))))
}
