package pubsub_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/pubsub"
)

// connections returns how many connections of s have subscribed something.
func connections(t *testing.T, s *redistest.Server) int {
	t.Helper()
	list := redistest.Must(s.Admin().Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text())(t)
	return strings.Count(list, "\n")
}

// subscriptions returns how many connections of s have subscribed channel.
func subscriptions(t *testing.T, s *redistest.Server, channel string) int64 {
	t.Helper()
	n := redistest.Must(s.Admin().PubSubNumSub(t.Context(), channel).Result())(t)
	return n[channel]
}

func publish(t *testing.T, s *redistest.Server, channel string) {
	t.Helper()
	redistest.NoError(t, s.Admin().Publish(t.Context(), channel, "x").Err())
}

func TestSubscriptionsAreSharedAndCounted(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			s := redistest.Start(t)
			h := newHub(t, s.Client(t, func(o *redis.Options) { o.Protocol = protocol }))
			var cancels []func()
			for _, channel := range []string{"a", "b"} {
				for range 10 {
					_, cancel := confirmed(t, h.Subscribe, channel)
					cancels = append(cancels, cancel)
				}
			}
			for range 10 {
				_, cancel := h.Events("a")
				cancels = append(cancels, cancel)
			}
			if n := redistest.Calls(t, s.Admin(), "subscribe"); n != 2 {
				t.Errorf("%d SUBSCRIBE for 2 channels", n)
			}
			if n := connections(t, s); n != 1 {
				t.Errorf("%d connections for 2 channels", n)
			}
			for i, cancel := range slices.Backward(cancels) {
				if n := subscriptions(t, s, "a"); n != 1 {
					t.Fatalf("%d subscriptions of a while %d are left", n, i)
				}
				cancel()
			}
			redistest.Eventually(t, "end of the connection", func() bool { return connections(t, s) == 0 })
			wake := heard(t, h, "a")
			publish(t, s, "a")
			woken(t, wake, "message on a new connection")
		})
	}
}

func TestMessageWakesWithinMilliseconds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	wake, _ := confirmed(t, newHub(t, s.Client(t)).Subscribe, "a")
	fastest := time.Hour
	for i := range 50 {
		start := time.Now()
		publish(t, s, "a")
		woken(t, wake, fmt.Sprint("message ", i))
		fastest = min(fastest, time.Since(start))
	}
	if fastest > 20*time.Millisecond {
		t.Errorf("the fastest of 50 messages took %v", fastest)
	}
}

// What breaks the connection, and mends it if the server is gone.
func TestReconnectIsAnnounced(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(t *testing.T, s *redistest.Server, p *redistest.Proxy){
		"restart": func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) { s.Restart(t) },
		"cut":     func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) { p.Cut() },
		"down and up": func(_ *testing.T, _ *redistest.Server, p *redistest.Proxy) {
			p.Down()
			p.Cut()
			p.Up()
		},
		"killed": func(t *testing.T, s *redistest.Server, _ *redistest.Proxy) {
			s.Admin().ClientKillByFilter(t.Context(), "TYPE", "pubsub")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			p := redistest.StartProxy(t, s.Addr)
			h := newHub(t, s.Client(t, func(o *redis.Options) { o.Addr = p.Addr }))
			wake := subscribed(t, h.Subscribe, "a")
			events := subscribed(t, h.Events, "b")
			woken(t, wake, "confirmed")
			redistest.Eventually(t, "events", func() bool { return subscriptions(t, s, "b") == 1 })
			for i := range 3 {
				fault(t, s, p)
				woken(t, wake, fmt.Sprint("reconnect ", i))
				redistest.Eventually(t, "events again", func() bool { return subscriptions(t, s, "b") == 1 })
				silent(t, events, "reconnected")
				publish(t, s, "b")
				woken(t, events, "event after the reconnect")
				silent(t, wake, "a reconnect is one signal")
				publish(t, s, "a")
				woken(t, wake, "message after the reconnect")
			}
			redistest.Eventually(t, "one connection", func() bool { return connections(t, s) == 1 })
		})
	}
}

func TestServerThatComesLater(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr)
	p.Down()
	h := newHub(t, s.Client(t, func(o *redis.Options) { o.Addr = p.Addr }))
	wake := subscribed(t, h.Subscribe, "a")
	_, cancelGone := h.Subscribe("gone")
	cancelGone()
	silent(t, wake, "no server")
	p.Up()
	woken(t, wake, "confirmed")
	if n := redistest.Calls(t, s.Admin(), "unsubscribe"); n != 0 {
		t.Errorf("%d UNSUBSCRIBE of what the server has never heard of", n)
	}
	publish(t, s, "a")
	woken(t, wake, "message")
}

func TestEventsOfARealServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--notify-keyspace-events", "KEA")
	h := newHub(t, s.Client(t))
	expired := subscribed(t, h.Events, "__keyevent@0__:expired", "mine")
	gone := subscribed(t, h.Events, "__keyspace@0__:mine", "del", "expired")
	done, _ := confirmed(t, h.Subscribe, "done") // by the same command or a later one
	admin := s.Admin()
	admin.Set(t.Context(), "mine", "v", 0)
	admin.PExpire(t.Context(), "mine", time.Hour)
	admin.Set(t.Context(), "other", "v", time.Millisecond)
	redistest.Eventually(t, "the other key is gone", func() bool {
		return admin.Exists(t.Context(), "other").Val() == 0
	})
	publish(t, s, "done")
	woken(t, done, "message that comes after all events")
	silent(t, expired, "another key expired")
	silent(t, gone, "set and pexpire")
	admin.Set(t.Context(), "mine", "v", time.Millisecond) // a PEXPIRE that takes as long would delete it
	woken(t, expired, "expired")
	woken(t, gone, "expired")
	admin.Set(t.Context(), "mine", "v", 0)
	admin.Del(t.Context(), "mine")
	woken(t, gone, "del")
	silent(t, expired, "del")
}

func TestManyChannelsAtOnce(t *testing.T) {
	t.Parallel()
	const n = 5000
	s := redistest.Start(t)
	h := newHub(t, s.Client(t))
	wakes, cancels := crowd(t, n, h.Subscribe)
	if got := redistest.Calls(t, s.Admin(), "subscribe"); got > n/20 {
		t.Errorf("%d SUBSCRIBE for %d channels", got, n)
	}
	publish(t, s, fmt.Sprint("channel ", n-1))
	woken(t, wakes[n-1], "message")
	for _, cancel := range cancels[1:] {
		cancel()
	}
	redistest.Eventually(t, "one channel left", func() bool {
		return len(s.Admin().PubSubChannels(t.Context(), "*").Val()) == 1
	})
	cancels[0]()
	redistest.Eventually(t, "no connection left", func() bool { return connections(t, s) == 0 })
}

func heap() uint64 {
	debug.FreeOSMemory() // collects garbage, too
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Not parallel, as it looks at the memory of the process.
func TestNothingStaysBehind(t *testing.T) {
	const n, allowed = 100_000, 1 << 20
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr)
	h := newHub(t, s.Client(t, func(o *redis.Options) { o.Addr = p.Addr }))
	_, cancelStays := confirmed(t, h.Subscribe, "stays")
	before := heap()
	for _, server := range []string{"up", "down"} {
		start := redistest.Calls(t, s.Admin(), "subscribe")
		for i := range n {
			_, cancel := h.Subscribe(fmt.Sprint("channel ", i))
			cancel()
		}
		if sent := redistest.Calls(t, s.Admin(), "subscribe") - start; sent > n/2 {
			t.Errorf("%d SUBSCRIBE for %d channels that came and went", sent, n)
		}
		redistest.Eventually(t, "memory is free with the server "+server, func() bool {
			return heap() < before+allowed
		})
		p.Down()
		p.Cut()
	}
	cancelStays()
	cancels := make([]func(), n)
	for i := range cancels {
		_, cancels[i] = h.Subscribe(fmt.Sprint("channel ", i))
	}
	for _, cancel := range cancels {
		cancel()
	}
	clear(cancels)
	redistest.Eventually(t, "memory is free after many at once", func() bool {
		return heap() < before+allowed
	})
	p.Up()
	heard(t, h, "stays")
}

func TestCallersThatComeAndGoFast(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	h := newHub(t, s.Client(t))
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 1000 {
				channel := fmt.Sprint("channel ", (i+j)%3)
				wake, cancel := h.Subscribe(channel)
				_, cancelEvents := h.Events(channel)
				if j%100 == 0 && !wakes(wake) {
					t.Errorf("%s: no signal", channel)
				}
				cancel()
				cancelEvents()
			}
		})
	}
	all.Wait()
	redistest.Eventually(t, "nothing is left", func() bool {
		return connections(t, s) == 0 && len(s.Admin().PubSubChannels(t.Context(), "*").Val()) == 0
	})
	wake := heard(t, h, "channel 0")
	publish(t, s, "channel 0")
	woken(t, wake, "message")
}

func TestCloseAgainstSubscribe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t)
	for i := range 30 {
		h := pubsub.New(rdb)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for j := range 50 {
					_, cancel := h.Subscribe(fmt.Sprint("channel ", j%3))
					if j%2 == 0 {
						cancel()
					}
				}
			})
		}
		if i%2 == 0 {
			redistest.Eventually(t, "connected", func() bool { return connections(t, s) > 0 })
		}
		h.Close()
		all.Wait()
	}
	redistest.Eventually(t, "no connection left", func() bool { return connections(t, s) == 0 })
}
