package compat_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// lockGenerations are the releases beside which locks are tested. Each differs from the
// others in what it does to a lock.
var lockGenerations = []*generation{
	newest, newGeneration("3.52.0"), newGeneration("3.26.0"), newGeneration("3.20.1"),
}

// The versions since which Redisson's locks are as now.
const (
	sinceSharded   = "3.22.0" // messages on a cluster are those of its shards
	sinceFairNames = "3.52.0" // the keys of a fair lock have mapped names
)

const defaultFairWait = 5 * time.Minute

var lockKinds = []javapeer.LockKind{javapeer.Reentrant, javapeer.Fenced, javapeer.Fair}

// A lockSubject is the locks of one name in a generation: each spec has a new one.
type lockSubject struct {
	*generation
	name string
	keys wire.LockKeys
}

// newLockSubject returns the subject of the specs that follow.
func newLockSubject(g *generation) *lockSubject {
	s := &lockSubject{generation: g}
	BeforeEach(func() { s.named(redistest.Name(GinkgoT())) })
	return s
}

func (s *lockSubject) named(name string) { s.name, s.keys = name, wire.LockKeysOf(name) }

// A javaHolder is a thread of Java, and the lock as it sees it.
type javaHolder struct {
	*javapeer.Lock
	thread, owner string
}

// holders returns a thread of the first instance and two of the second.
func (s *lockSubject) holders(ctx context.Context, kind javapeer.LockKind) (a, b, c javaHolder) {
	GinkgoHelper()
	one, two := s.javas[0].client, s.javas[1].client
	return s.holder(ctx, kind, one), s.holder(ctx, kind, two), s.holder(ctx, kind, two)
}

// holder returns a new thread of an instance.
func (s *lockSubject) holder(ctx context.Context, kind javapeer.LockKind, client string) javaHolder {
	GinkgoHelper()
	h := javaHolder{Lock: s.peer.Lock(client, s.name, kind), thread: redistest.Name(GinkgoT())}
	var err error
	h.owner, err = h.Owner(ctx, h.thread)
	done(err)
	return h
}

// instance connects an instance for one spec.
func (s *lockSubject) instance(ctx context.Context, opts ...javapeer.ConnectOption) (client string) {
	GinkgoHelper()
	client = redistest.Name(GinkgoT())
	_, err := s.peer.Connect(ctx, client, server.Addr, opts...)
	done(err)
	DeferCleanup(func(ctx SpecContext) { done(s.peer.Disconnect(ctx, client)) })
	return client
}

func (h javaHolder) locks(ctx context.Context) {
	GinkgoHelper()
	done(h.LockLease(ctx, h.thread, time.Hour))
}

func (h javaHolder) unlocks(ctx context.Context) {
	GinkgoHelper()
	done(h.Unlock(ctx, h.thread))
}

// held expects the hash of the lock to be this owner's.
func (s *lockSubject) held(ctx context.Context, h javaHolder, count int) {
	GinkgoHelper()
	Expect(look.HGetAll(ctx, s.name).Val()).To(Equal(map[string]string{h.owner: fmt.Sprint(count)}))
}

// free expects no key of the lock, but for idempotency keys and a token.
func (s *lockSubject) free(ctx context.Context) {
	GinkgoHelper()
	is(0)(look.Exists(ctx, s.keys.Hash, s.keys.Queue, s.keys.Timeout).Result())
}

// expires expects a time to live, to within ten seconds below.
func (s *lockSubject) expires(ctx context.Context, want time.Duration) {
	GinkgoHelper()
	is(want.Milliseconds())(roughly(look.Do(ctx, "PTTL", s.keys.Hash).Int64()))
}

// listens waits until a number of clients listen to a channel.
func listens(ctx context.Context, channel string, clients int64) {
	GinkgoHelper()
	Eventually(ctx, func() int64 { return look.PubSubNumSub(ctx, channel).Val()[channel] }).
		WithTimeout(patience).WithPolling(time.Millisecond).Should(Equal(clients))
}

// waiting waits until a thread waits for a message.
func (s *lockSubject) waiting(ctx context.Context, h javaHolder) {
	GinkgoHelper()
	Eventually(func() (bool, error) { return s.peer.Waiting(ctx, h.thread) }).
		WithTimeout(patience).WithPolling(time.Millisecond).Should(BeTrue())
}

// thrown expects an exception of Java.
func thrown(err error, class, message string) {
	GinkgoHelper()
	var e *javapeer.Error
	Expect(errors.As(err, &e)).To(BeTrue(), "%v", err)
	Expect(e.Type).To(Equal(class))
	Expect(e.Message).To(ContainSubstring(message))
}

// An ear hears what is published, and what happens to keys.
type ear struct{ *redis.PubSub }

// newEar returns an ear for the channels that match the patterns.
func newEar(ctx context.Context, patterns ...string) ear {
	GinkgoHelper()
	e := ear{look.PSubscribe(ctx, patterns...)}
	DeferCleanup(e.Close)
	for range patterns {
		_, err := e.Receive(ctx)
		done(err)
	}
	return e
}

// heard returns what came until now, as "channel message". The reply to a PING comes
// after all that was published before it.
func (e ear) heard(ctx context.Context) (all []string) {
	GinkgoHelper()
	done(e.Ping(ctx, "end"))
	for {
		got, err := e.Receive(ctx)
		done(err)
		switch got := got.(type) {
		case *redis.Message:
			all = append(all, got.Channel+" "+got.Payload)
		case *redis.Pong:
			return all
		}
	}
}
