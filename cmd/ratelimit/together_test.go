package main

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A crowd sends requests through Envoy until it is stopped.
type crowd struct {
	passed, refused, failed atomic.Int64
	slowest                 atomic.Int64 // in ns
	stopping                chan struct{}
	callers                 sync.WaitGroup
}

func (e *envoy) crowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{stopping: make(chan struct{})}
	for range 4 {
		c.callers.Go(func() {
			pace := time.NewTicker(20 * time.Millisecond)
			defer pace.Stop()
			for {
				select {
				case <-c.stopping:
					return
				case <-pace.C:
				}
				start := time.Now()
				switch e.get(t, "/load", "load: x").StatusCode {
				case 200:
					c.passed.Add(1)
				case 429:
					c.refused.Add(1)
				default:
					c.failed.Add(1)
				}
				c.slowest.Store(max(c.slowest.Load(), int64(time.Since(start))))
			}
		})
	}
	return c
}

// until waits until n more requests have passed or been refused.
func (c *crowd) until(t *testing.T, n int64) {
	t.Helper()
	before := c.passed.Load() + c.refused.Load()
	redistest.Eventually(t, "requests are decided", func() bool {
		return c.passed.Load()+c.refused.Load() >= before+n
	})
}

// stop ends the crowd, and reports errors and what is above the limit of 100.
func (c *crowd) stop(t *testing.T, most int64) {
	t.Helper()
	close(c.stopping)
	c.callers.Wait()
	slowest := time.Duration(c.slowest.Load())
	t.Logf("%d passed, %d refused, the slowest took %v", c.passed.Load(), c.refused.Load(), slowest)
	if c.failed.Load() > 0 {
		t.Errorf("%d requests failed", c.failed.Load())
	}
	if c.passed.Load() > most {
		t.Errorf("%d requests passed, the limit is %d", c.passed.Load(), most)
	}
}

// shows waits until the page of the state has all texts.
func (p *process) shows(t *testing.T, texts ...string) {
	t.Helper()
	redistest.Eventually(t, strings.Join(texts, ", "), func() bool {
		_, state := get(t, p.debug+"/state")
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(state, text) })
	})
}

// While Redis hangs or is dead, requests through Envoy are decided, and the limit holds before, meanwhile
// and after.
func TestRedisFailsUnderLoad(t *testing.T) {
	for failure, fail := range map[string]func(*redistest.Server) (end func()){
		"SIGSTOP": func(s *redistest.Server) func() { return s.Freeze(t) },
		"kill":    func(s *redistest.Server) func() { s.Stop(); return func() { s.Restart(t) } },
	} {
		for _, lease := range []string{"0", "1s"} {
			t.Run(failure+", leases of "+lease, func(t *testing.T) {
				server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
				p, e := behindEnvoy(t, "--redis", server.Addr, "--budget", "15ms", "--lease", lease)
				c := e.crowd(t)
				c.until(t, 20)
				end := fail(server)
				c.until(t, 40)
				p.shows(t, "degraded: true")
				c.until(t, 20)
				end()
				p.shows(t, "degraded: false", "unbooked permits: 0") // Redis knows all
				c.until(t, 60)
				c.stop(t, 100)
			})
		}
	}
}

// A failover of Sentinel costs no request an error. The replica may lack the last grants: twice the limit
// is the bound.
func TestAFailoverUnderLoad(t *testing.T) {
	redistest.Envoy.Binary(t)
	s := redistest.StartSentinel(t)
	p, e := behindEnvoy(t, "REDIS_TYPE=SENTINEL", "--budget", "15ms",
		"--redis", strings.Join(append([]string{s.MasterName}, s.Addrs...), ","))
	c := e.crowd(t)
	c.until(t, 20)
	s.Failover(t)
	c.until(t, 20)
	p.shows(t, "degraded: false", "unbooked permits: 0") // by the new master
	c.until(t, 60)
	c.stop(t, 200)
}
