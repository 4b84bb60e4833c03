package clusters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// The rules of docs/keys.md, by their places.
const (
	ruleOfAll = iota + 1
	ruleOfCluster
	ruleOfSentinel
)

// channelOfGroup is the channel of the other limiter of the rows with a Group.
const channelOfGroup = "&{api}:user:*"

// rule returns the rights in an ACL SETUSER of docs/keys.md.
func rule(t *testing.T, which int) []string {
	t.Helper()
	return redistest.Rights(t, "../../docs/keys.md", "app", which)
}

// contents returns what the keys of a server hold, without sessions and the names of records.
func (p *player) contents() string {
	p.Helper()
	ctx, text := p.Context(), []string{}
	for _, key := range p.Look.Keys(ctx, "*").Val() {
		line := fmt.Sprintf("%s for %v:", key, p.Look.PTTL(ctx, key).Val().Round(10*time.Second))
		var parts []string
		switch kind := p.Look.Type(ctx, key).Val(); kind {
		case "hash":
			for field, content := range p.Look.HGetAll(ctx, key).Val() {
				if !strings.HasPrefix(field, "session:") && field != "checked" {
					parts = append(parts, field+"="+content)
				}
			}
		case "string":
			parts = append(parts, p.Look.Get(ctx, key).Val())
		default:
			for _, z := range p.Look.ZRangeWithScores(ctx, key, 0, -1).Val() {
				m := z.Member.(string)
				parts = append(parts, fmt.Sprintf("%d at %.0f: % x", len(m), z.Score-float64(p.Now),
					m[max(0, len(m)-4):]))
			}
		}
		slices.Sort(parts)
		text = append(text, line+fmt.Sprint(parts))
	}
	slices.Sort(text)
	return strings.Join(text, "\n")
}

// optionalRights are those without which every call works.
var optionalRights = []string{"+incrby", "+publish", "+zrevrange", "+type"}

// lacking returns the rights to go without: each one alone, and the optional ones in every combination.
func lacking(rights []string) (all [][]string) {
	for _, right := range rights[2:] { // without on, and the password
		all = append(all, []string{right})
	}
	for some := range 1 << len(optionalRights) {
		var lacks []string
		for i, right := range optionalRights {
			if some>>i&1 == 1 {
				lacks = append(lacks, right)
			}
		}
		if len(lacks) > 1 {
			all = append(all, lacks)
		}
	}
	return all
}

// A denial is what becomes of calls without some rights.
type denial struct {
	*server
	rights   []string
	together map[string]string            // what is seen without each right that belongs to another right
	failed   map[string]map[string]string // the errors, by the right and the row
	denied   map[string][]string          // what Redis has denied without a right
}

// tries does a row without some rights, and returns the contents before and after it.
func (d *denial) tries(row string, lacks ...string) (before, after string, err error) {
	d.Helper()
	p, steps := d.starts(row)
	before = p.contents()
	redistest.Denied(d, d.look) // before
	redistest.Allow(d, "app", redistest.Without(d.rights, lacks...), d.look)
	err = p.does(p.client(d.user), steps)
	if len(lacks) == 1 {
		d.denied[lacks[0]] = append(d.denied[lacks[0]], redistest.Denied(d, d.look)...)
	}
	return before, p.contents(), err
}

// notes notes that a row has failed without one right.
func (d *denial) notes(name string, lacks []string, err error) {
	if err == nil || len(lacks) > 1 {
		return
	}
	if d.failed[lacks[0]] == nil {
		d.failed[lacks[0]] = map[string]string{}
	}
	d.failed[lacks[0]][name] = err.Error()
}

// judges expects that a row of one call without some rights leaves what it wants, or fails and changes
// nothing.
func (d *denial) judges(name, row, want string, lacks []string) {
	d.Helper()
	before, after, err := d.tries(row, lacks...)
	d.notes(name, lacks, err)
	optional := slices.Contains(optionalRights, lacks[0])
	switch {
	case hasStep(row, "real") || hasStep(row, "list"):
	case err == nil && after != want:
		d.Errorf("%s without %q leaves\n%s\nwant\n%s", name, lacks, after, want)
	case err == nil:
	case !strings.Contains(err.Error(), "NOPERM") || optional:
		d.Errorf("%s without %q: %v", name, lacks, err)
	case after == before || strings.Contains(row[strings.Index(row, "|"):], ";"):
	case len(lacks) == 1 && d.together[lacks[0]] != "":
		d.together[lacks[0]] = "half done"
	default:
		d.Errorf("%s without %q is denied and leaves\n%s\nwant\n%s", name, lacks, after, before)
	}
}

// On Redis 6 the rule for limiters follows resetchannels, and has no right of Redis 7.
func TestRightsOnRedis6(t *testing.T) {
	t.Setenv("REDIS_SERVER", redistest.Releases[1].Binary(t)) // skips with -short
	s := redistest.Start(t)
	rights := append([]string{"resetchannels"}, redistest.Without(rule(t, ruleOfAll), "+pexpiretime")...)
	redistest.Allow(t, "app", rights, s.Admin())
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	l := NewClient(t, rdb).RateLimiter("api")
	NoError(t, Yes(l.TrySetRate(t.Context(), Overall, 1, time.Second)))
	for range 2 {
		NoError(t, Yes(l.TryAcquire(t.Context(), 1, time.Minute)))
	}
	NoError(t, l.Release(t.Context(), 1))
}

// Without a right, or without some of the optional ones, a call does all that it does with them, or changes
// nothing and returns an error. The page names the rights of which this is not true, and those without which
// no call fails.
func TestEachRightOfThePageIsNeeded(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	s := redistest.Start(t, "--notify-keyspace-events", "KEA")
	rights := rule(t, ruleOfAll)
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
	redistest.Allow(t, "app", rights, s.Admin())
	on := &server{T: t, look: s.Admin(), user: rdb, nodes: []*redis.Client{s.Admin()}, name: "api"}
	d := &denial{server: on, rights: rights, together: map[string]string{},
		failed: map[string]map[string]string{}, denied: map[string][]string{}}
	for _, right := range redistest.Listed(t, "../../docs/keys.md", "these rights belong together:") {
		d.together[right] = "no call is half done without it"
	}
	for name, row := range Rows(callsTable) {
		_, want, err := d.tries(row)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, lacks := range lacking(rights) {
			if !hasStep(row, "only") || hasStep(row, "only "+lacks[0]) {
				d.judges(name, row, want, lacks)
			}
		}
	}
	for right, seen := range d.together {
		if seen != "half done" {
			t.Errorf("the page says that %s belongs to other rights, but %s", right, seen)
		}
	}
	d.agrees(redistest.Listed(t, "../../docs/keys.md", "No call fails without these rights:"))
}

// agrees expects that without each right Redis denies something, and a call fails unless the page spares the
// right.
func (d *denial) agrees(spare []string) {
	d.Helper()
	for _, right := range d.rights[2:] {
		failed := d.failed[right]
		switch {
		case len(d.denied[right]) == 0:
			d.Errorf("%s: nothing is denied without it", right)
		case slices.Contains(spare, right) == (len(failed) > 0):
			d.Errorf("%s: the page spares %q; without it these fail: %v", right, spare, failed)
		}
		for name, text := range failed {
			booking := strings.HasPrefix(name, "a booking") // no call of a user returns its error
			if strings.Contains(text, "NOPERM") && !booking && !strings.Contains(text, d.name) {
				d.Errorf("%s: %s: %q does not name the limiter", right, name, text)
			}
		}
	}
}

// all does all rows but the slow ones, and returns what has failed and what Redis has denied.
func (s *server) all() (failed map[string]error, denied []string) {
	s.Helper()
	redistest.Denied(s, s.nodes...) // before
	failed = map[string]error{}
	for name, row := range Rows(callsTable) {
		if hasStep(row, "slow") {
			continue
		}
		p, steps := s.starts(row)
		if err := p.does(p.client(s.user), steps); err != nil {
			failed[name] = err
		}
	}
	return failed, redistest.Denied(s, s.nodes...)
}

// On a cluster the rule and what go-redis needs besides are enough, and nothing of that may be left out.
func TestTheRightsOfThePageSufficeOnACluster(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	cluster := redistest.StartCluster(t, redistest.WithReplicas(1),
		redistest.WithArgs("--notify-keyspace-events", "KEA"))
	basic, more := append(rule(t, ruleOfAll), channelOfGroup), rule(t, ruleOfCluster)
	s := &server{T: t, look: cluster.Servers[cluster.Node(t, "api")].Admin(), name: "api", replicas: 1}
	for _, node := range cluster.Servers {
		s.nodes = append(s.nodes, node.Admin())
	}
	tries := func(lacks string) (failed map[string]error, denied []string) {
		redistest.Allow(t, "app", redistest.Without(slices.Concat(basic, more), lacks), s.nodes...)
		for _, reads := range []bool{false, true} {
			s.user = cluster.Client(t, func(o *redis.ClusterOptions) {
				o.Username, o.Password, o.ReadOnly = "app", "secret", reads
			})
			_ = s.user.Get(t.Context(), s.name).Err() // of the user's own, from a replica
			errs, at := s.all()
			denied = append(denied, at...)
			if len(errs) > 0 {
				failed = errs
			}
		}
		return failed, denied
	}
	if failed, denied := tries(""); len(failed)+len(denied) > 0 {
		t.Fatalf("these fail: %v; denied are %q", failed, denied)
	}
	for _, right := range more {
		failed, denied := tries(right)
		// COMMAND tells go-redis what a replica may be asked; without it go-redis asks the master.
		if len(denied) == 0 || len(failed) == 0 && right != "+command" {
			t.Errorf("%s: without it these fail: %v; denied are %q", right, failed, denied)
		}
	}
}

// A user of a sentinel that has the rights of the page, and no others.
func TestTheRightsOfThePageSufficeOnSentinels(t *testing.T) {
	t.Parallel() // most of the time is spent waiting
	s := redistest.StartSentinels(t, 2, "--notify-keyspace-events", "KEA")
	rights := rule(t, ruleOfSentinel)
	var nodes []*redis.Client
	for _, addr := range s.Addrs {
		node := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
		t.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
	}
	tries := func(rights []string, listens time.Duration) []string {
		redistest.Allow(t, "app", rights, nodes...)
		redistest.Denied(t, nodes...) // before
		opts := &redis.FailoverOptions{MasterName: s.MasterName, SentinelAddrs: s.Addrs,
			SentinelUsername: "app", SentinelPassword: "secret", DialerRetries: 1, MaxRetries: -1}
		for _, rdb := range []redis.UniversalClient{
			redis.NewFailoverClient(opts), redis.NewFailoverClusterClient(opts)} {
			err := rdb.Ping(t.Context()).Err()
			denied := redistest.Denied(t, nodes...)
			for end := time.Now().Add(listens); len(denied) == 0 && time.Now().Before(end); {
				time.Sleep(50 * time.Millisecond)
				denied = redistest.Denied(t, nodes...)
			}
			_ = rdb.Close()
			if err != nil || len(denied) > 0 {
				return append(denied, "")
			}
		}
		return nil
	}
	if denied := tries(rights, 0); len(denied) > 0 {
		t.Fatalf("denied are %q", denied)
	}
	for _, right := range rights[2:] { // without on, and the password
		listens := time.Duration(0)
		if right == "+ping" {
			listens = Patience // go-redis checks the connection every 3 s
		}
		if denied := tries(redistest.Without(rights, right), listens); len(denied) == 0 {
			t.Errorf("%s: nothing is denied without it", right)
		}
	}
}
