package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
)

// redissons are the releases beside which locks are tested: the newest, and those whose locks differ from it.
// Messages on a cluster are those of its shards since 3.22.0, the keys of a fair lock have mapped names since
// 3.52.0.
var redissons = []string{"", "3.52.0", "3.26.0", "3.20.1"}

// bothWays are played twice: x is Go and y is Java, or x is Java and y is Go.
var bothWays = map[string]string{
	"it keeps the other language out": "" +
		"x1 locks 1h; hash x1 1; lease 59m50s..1h; y1 refused 0s; now; y1 refused 300ms; after 298ms..20s; " +
		"x1 relocks; hash x1 2; x1 holds 2; y sees locked; y lasts 59m50s..1h; x1 unlocks; y1 refused 0s; " +
		"hash x1 1; x1 unlocks; free; y sees none; y lasts -2; x1 takes; lease 20s..30s; x1 unlocks; free",
	"an unlock wakes the other language, in time for a bounded wait": "" +
		"x1 locks 1h; y1 waits; x1 unlocks; y1 has; hash y1 1; lease 20s..30s; x1 refused 0s; y1 unlocks; " +
		"free; x1 locks 1h; y1 waits 20s; x1 unlocks; y1 has; y1 unlocks; free; subscribed 0",
	"a lease that ends later than the other language has read": "" +
		"x1 locks 10s; y1 waits; x1 relocks; now; y1 has; after 1s..20s; hash y1 1; y1 unlocks; free",
}

// bothWaysOf are further plays for a kind of lock.
var bothWaysOf = map[string]map[string]string{
	"plain": {
		"by force": "" +
			"x1 locks 1h; keys LOCK; listens all; y forces yes; message all 0; free; y forces no; " +
			"y1 locks 1h; x1 unlocks ! ErrLost; hash y1 1; y1 holds 1; y1 unlocks",
		"under a mapped name": "m1 locks 1h; n1 waits; hash m1 1; m1 unlocks; n1 has; hash n1 1; m1 waits; " +
			"n1 unlocks; m1 has; m1 unlocks; keys",
	},
	"fenced": {
		"each hold has a greater token": "" +
			"x1 locks; keys TOKEN LOCK; x1 follows; x1 relocks; x1 follows; x1 unlocks; x1 unlocks; " +
			"y1 locks; y1 follows x1; y1 relocks; y1 follows; y1 unlocks; y1 unlocks; x2 takes; " +
			"x2 follows y1; x2 unlocks; lease -1 TOKEN; redis SET TOKEN 9000000000000000; y1 takes; " +
			"y1 token 9000000000000001; y1 unlocks; x3 token 9000000000000001",
	},
	"fair": {
		"by force": "" +
			"x1 locks 1h; y1 waits; keys QUEUE SCORES LOCK; listens y1; x forces yes; message y1 0; " +
			"y1 has; x2 waits; x forces yes; x2 has; x1 unlocks ! ErrLost; y1 unlocks ! ErrLost; " +
			"x2 unlocks; free",
	},
}

// besideJava are about locks that Java uses as processes j and k. The numbers are those of the faults in
// docs/faults.md. A message to b1 has it ask before it renews its place, after 10 s.
var besideJava = map[string]map[string]string{
	"fenced": {"Go does not get a lock without a time to live, but Java does (H6)": "" +
		"j1 locks 1h; redis PERSIST LOCK; a1 refused 0s; a1 refused 300ms; a lasts -1; hash j1 1; " +
		"k1 draws; k1 token -1; hash j1 1; a1 waits; j1 unlocks; a1 has; a1 follows j1; " +
		"k1 unlocks ! ErrLost; a1 unlocks; k2 draws; k2 follows a1; k2 unlocks; free"},
	"fair": {
		"six callers are served in their order": "" +
			"a1 locks 1h; j1 waits endless 1h; a2 waits; k1 waits endless 1h; b1 waits; " +
			"j2 waits endless 1h; a3 waits; queue j1 a2 k1 b1 j2 a3; a1 unlocks; j1 has; hash j1 1; " +
			"queue a2 k1 b1 j2 a3; places 15s..2h; j1 unlocks; a2 has; hash a2 1; queue k1 b1 j2 a3; " +
			"places 15s..2h; a2 unlocks; k1 has; k1 unlocks; b1 has; queue j2 a3; places 15s..2h; " +
			"b1 unlocks; j2 has; j2 unlocks; a3 has; a3 unlocks; free",
		"a single attempt is refused while the other language waits (I5)": "" +
			"j1 locks 1h; k1 waits; a1 refused 0s; a2 waits; k2 refused 0s; queue k1 a2; j1 unlocks; " +
			"k1 has; k1 unlocks; a2 has; a2 unlocks; free",
		"Java gets it when Go leaves while it is free (I10)": "" +
			"j1 locks 1h; a1 waits; k1 waits; redis DEL LOCK; a1 leaves; k1 has; k1 unlocks; free",
		"a caller of Go behind Java has it notice the end of a lease (before 3.32.0)": "" +
			"j1 locks 10s; k1 waits; j1 relocks; b1 waits; k1 has; k1 unlocks; b1 has; b1 unlocks; free",
		"Java waits until the place of a dead caller of Go ends": "" +
			"a1 locks 1h; now; put " + deadGo + " 1s; a1 unlocks; j1 takes 20s; after 1s..20s; " +
			"j1 unlocks; free",
		"Go waits until the place of an interrupted caller of Java ends (I9, I11d)": "" +
			"a1 locks 1h; j1 waits; j1 leaves; queue j1; b1 waits; queue j1 b1; now; ends j1 2s; " +
			"a1 unlocks; redis PUBLISH CHANNEL:b1 0; b1 has; after 1900ms..20s; b1 unlocks; free",
		"places of Java lose what Go had added when it leaves or wins, and no more (I11c)": "" +
			"a1 locks 1h; b1 waits; j1 waits endless 1h; place j1 301s..330s; b1 leaves; queue j1; " +
			"place j1 280s..5m; b2 waits; k1 waits endless 1h; place k1 601s..630s; a1 unlocks; j1 has; " +
			"place k1 301s..330s; j1 unlocks; b2 has; place k1 280s..5m; b2 unlocks; k1 has; k1 unlocks; " +
			"free",
	},
}

// besideNewest are further plays for the newest release. They take long.
var besideNewest = map[string]map[string]string{
	"plain": {"a process of Go dies": "" +
		"w1 locks; j1 waits; fail w; now; j1 has; after 1s..5s; hash j1 1; j1 unlocks; free"},
	"fair": {
		"it is free for Go when the scores were lost, and Java is stuck (I11a)": "" +
			"a1 locks 1h; j1 waits endless 1h; redis DEL SCORES; redis PUBLISH CHANNEL:j1 0; queue j1 j1; " +
			"a1 unlocks; j1 has; j1 unlocks; k1 refused 0s; a2 takes; a2 unlocks; free; k1 takes; k1 unlocks",
		"both outlast dead waiters": "" +
			"a1 locks 1h; now; put " + deadGo + " 3s; put java:1 3s; b1 waits; j1 waits; a1 unlocks; " +
			"redis PUBLISH CHANNEL:b1 0; b1 has; after 2900ms..18s; b1 unlocks; j1 has; j1 unlocks; free",
		"an async call of Java that times out leaves Go its place (I11c)": "" +
			"a1 locks; j1 async 5s; b1 waits; place b1 320s..330s; j1 has ! refused; queue b1; " +
			"place b1 1s..30s; k1 refused 0s; queue b1; a1 unlocks; b1 has; b1 unlocks; free",
		"three take it, and Go takes it again (I11c)": "" +
			"a1 locks; j1 async 5s; j2 async 5s; j3 async 5s; b1 waits; j1 has ! refused; " +
			"j2 has ! refused; j3 has ! refused; queue b1; place b1 -10m..-9m; k1 refused 0s; queue; " +
			"redis PUBLISH CHANNEL:b1 0; queue b1; a1 unlocks; b1 has; b1 unlocks; free",
		"a place of Go ends by the clock of Java, which asks, and Go takes it again (I11b)": "" +
			"clock -1000s; a1 locks 1h; b1 waits; place b1 -1000s..-970s; a2 refused 0s; queue b1; " +
			"k1 refused 0s; queue; redis PUBLISH CHANNEL:b1 0; queue b1; a1 unlocks; b1 has; b1 unlocks",
		"a place of Java ends by the clock of Redis when Go asks (I11b)": "" +
			"clock 1000s; a1 locks 10s; j1 waits; queue j1; place j1 280s..305s; a2 refused 0s; queue; " +
			"j1 has; j1 unlocks; free",
	},
}

// deadGo is an owner of Go that has ended.
const deadGo = "5b5e7c7a-2a43-4a0c-9d2e-6f0b7c3d5a19:6842680076911175728"

// Go and Java share locks: what each does, the other sees.
func TestJava(t *testing.T) {
	t.Parallel()
	redistest.Require(t, "java")
	redistest.Require(t, "mvn")
	for _, version := range redissons {
		t.Run("Redisson "+version, func(t *testing.T) {
			if version != "" {
				redistest.Thorough(t)
			}
			peer := must(javapeer.Start(t.Context(), version, javapeer.SmallJVM...))(t)
			t.Cleanup(func() { _ = peer.Close() })
			t.Run("on a cluster", func(t *testing.T) { onClusterOfBoth(t, peer) })
			for _, from := range []string{"aj", "abcjkl"} {
				for kind := range kinds {
					t.Run("crowds "+from+", "+kind, func(t *testing.T) {
						p := newPlay(onRedis(t), kinds[kind])
						p.peer, p.javas = peer, "jkl"
						trouble{from: from, patient: true, befalls: sharesWithJava}.strikes(p)
					})
				}
			}
			for kind := range kinds {
				for _, specs := range []map[string]string{bothWays, bothWaysOf[kind]} {
					tellJava(t, peer, kind, "y", specs)
					tellJava(t, peer, kind, "x", specs)
				}
				tellJava(t, peer, kind, "", besideJava[kind])
				if version == "" {
					tellJava(t, peer, kind, "", besideNewest[kind])
				}
			}
		})
	}
}

// tellJava plays specs in which the processes j, k and m are Java. m has a name mapper.
func tellJava(t *testing.T, peer *javapeer.Peer, kind, first string, specs map[string]string) {
	t.Helper()
	for spec, steps := range specs {
		t.Run(fmt.Sprintf("%s: %s, %s", kind, spec, first), func(t *testing.T) {
			on := func(t *testing.T) *env { return onRedis(t) }
			if strings.Contains(steps, "clock ") {
				on = onClock
			}
			s := on(t)
			if first == "x" {
				s.named("{" + s.name + "}x")
			}
			p := newPlay(s, kinds[kind])
			p.peer, p.javas = peer, "jkm"+first
			if err := p.tells(steps); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// onClusterOfBoth expects Go and Java to wake each other on a cluster, on shard channels if this release has
// them, and Java to wake Java where it may not ask for shard channels. A waiter that does not hear the other
// language gets the lock when the lease expires.
func onClusterOfBoth(t *testing.T, peer *javapeer.Peer) {
	w := onCluster(t)
	steps := "x1 locks 1h; y1 refused 0s; y1 waits; x1 unlocks; y1 has; x1 refused 0s; y1 unlocks; free"
	if peer.Version() == "3.20.1" {
		steps = "x1 locks 5s; y1 waits; now; x1 unlocks; y1 has; after 500ms..20s; y1 unlocks; free"
	}
	processes := map[string]*process{}
	tells := func(kind, javas, steps string) {
		s := *w
		s.named(redistest.Name(t))
		s.server = w.cluster.Servers[w.cluster.Node(t, s.name)]
		s.look = s.server.Admin()
		p := newPlay(&s, kinds[kind])
		p.peer, p.javas, p.processes = peer, javas, processes
		if err := p.tells(steps); err != nil {
			t.Errorf("%s, %s: %v", kind, javas, err)
		}
	}
	for kind := range kinds {
		tells(kind, "jk", strings.NewReplacer("x", "a", "y", "j").Replace(steps))
		tells(kind, "jk", strings.NewReplacer("x", "k", "y", "b").Replace(steps))
	}
	for _, node := range w.cluster.Servers {
		denies := node.Admin().Do(t.Context(), "ACL", "SETUSER", "default", "-pubsub|shardnumsub")
		redistest.NoError(t, denies.Err())
	}
	tells("plain", "lo", "l1 locks 1h; o1 waits; l1 unlocks; o1 has; o1 unlocks; free")
}

// sharesWithJava expects callers of both languages, the same number of each, to have the lock often while all
// want it. Measured: Java gets 3 to 5 of 10 hand-overs, beside one process of Go and beside three.
func sharesWithJava(c *crowd) {
	redistest.Eventually(c, "turns of Java", func() bool { return c.passesOfJava.Load() > 20 })
	javaBefore, before := c.passesOfJava.Load(), c.passes.Load()
	c.passed(int64(redistest.Rounds(c, 1000)))
	redistest.NoError(c, c.soon("a share", func() error {
		java, all := c.passesOfJava.Load()-javaBefore, c.passes.Load()-before
		switch fair := 10*min(java, all-java) >= all; {
		case all < 200:
			return fmt.Errorf("%d hand-overs", all)
		case !fair: // a busy machine may keep one of them back for some time: look at the next ones
			javaBefore, before = javaBefore+java, before+all
			return fmt.Errorf("Java got %d of %d hand-overs", java, all)
		}
		c.Logf("Java got %d of %d hand-overs", java, all)
		return nil
	}))
}

// connect connects an instance of Redisson to the server or cluster. The name mapper of m has a prefix.
func (p *play) connect(letter string) *process {
	p.Helper()
	c, address := &process{instance: redistest.Name(p)}, ""
	var opts []javapeer.ConnectOption
	if p.cluster != nil {
		opts = append(opts, javapeer.Cluster(p.cluster.Addrs...))
	} else {
		address = p.server.Addr
	}
	if letter == "m" {
		c.prefix = p.name[:3]
		opts = append(opts, javapeer.NamePrefix(c.prefix))
	}
	must(p.peer.Connect(p.Context(), c.instance, address, opts...))(p)
	p.Cleanup(func() { _ = p.peer.Disconnect(context.Background(), c.instance) })
	return c
}

// A thread is a lock as a thread of Java sees it, and the hold of that thread.
type thread struct {
	*javapeer.Lock
	peer        *javapeer.Peer
	name, owner string
	fenced      bool
	lease       time.Duration
	token       int64
}

// thread returns a new thread of an instance of Redisson.
func (p *play) thread(at *process, beside string) *thread {
	p.Helper()
	lock := p.peer.Lock(at.instance, strings.TrimPrefix(p.name+beside, at.prefix), p.kind())
	j := &thread{Lock: lock, peer: p.peer, name: redistest.Name(p), fenced: p.fenced()}
	j.owner = must(lock.Owner(p.Context(), j.name))(p)
	return j
}

// takes takes the lock. If ctx ends, it interrupts the thread.
func (j *thread) takes(ctx context.Context, wait, lease time.Duration) (hold, error) {
	started := j.Start(j.name, wait, lease)
	took, err := started.Wait(ctx)
	if ctx.Err() != nil {
		on := context.WithoutCancel(ctx)
		_ = j.peer.Interrupt(on, j.name)
		if took, err = started.Wait(on); err != nil {
			return nil, ctx.Err()
		}
	}
	switch {
	case err != nil:
		return nil, err
	case took != nil && !*took:
		return nil, errRefused
	}
	j.lease = lease
	return j, j.draws(ctx)
}

// draws reads the token of a hold, which is the last token.
func (j *thread) draws(ctx context.Context) (err error) {
	if j.fenced {
		j.token, err = j.Lock.Token(ctx)
	}
	return err
}

// waits reports whether the thread that takes the lock waits for a message.
func (j *thread) waits() bool {
	waits, err := j.peer.Waiting(context.Background(), j.name)
	return waits && err == nil
}

// queued reports whether the queue has this length, and its last owner listens.
func (p *play) queued(length int) bool {
	queue := p.waiting()
	if len(queue) < length {
		return false
	}
	plain, shard := p.listeners(p.keys.Channel + ":" + queue[length-1])
	return plain+shard > 0
}

func (j *thread) Owner() string { return j.owner }
func (j *thread) Token() int64  { return j.token }

func (j *thread) HoldCount(ctx context.Context) (int64, error) { return j.Lock.HoldCount(ctx, j.name) }
func (j *thread) IsHeld(ctx context.Context) (bool, error)     { return j.HeldByCurrent(ctx, j.name) }

func (j *thread) Relock(ctx context.Context) error {
	_, err := j.takes(ctx, endless, j.lease)
	return err
}

// Unlock returns ErrLost if the thread does not hold the lock.
func (j *thread) Unlock(ctx context.Context) error {
	err := j.Lock.Unlock(ctx, j.name)
	var e *javapeer.Error
	if errors.As(err, &e) && e.Type == "java.lang.IllegalMonitorStateException" &&
		strings.Contains(e.Message, "not locked by current thread by node id") {
		err = fmt.Errorf("%w: %w", rlock.ErrLost, err)
	}
	return err
}

func (j *thread) RemainTimeToLive(ctx context.Context) (time.Duration, error) {
	ms, err := j.Lock.RemainTimeToLive(ctx)
	if ms < 0 {
		return time.Duration(ms), err // -1 and -2 are the same in Go
	}
	return time.Duration(ms) * time.Millisecond, err
}
