package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/cmd/rrl/web"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A live page shows grants, by Go and by Java, and the end of the limiter.
func TestLive(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	l := limiter(t, rdb, "orders", 10)
	take(t, l, 2)
	s := follow(t, site(t, rdb, web.Config{}).URL+page("/live", "orders"))
	e, _ := s.next()
	if e.State != "ok" || e.Remaining != 8 || e.Texts["outstanding"] != "2" ||
		e.Texts["rate"] != "10 permits" {
		t.Errorf("%+v", e)
	}
	take(t, l, 3)
	byGo, byOthers := int64(0), int64(0)
	e = s.until("a grant", func(e event) bool {
		byGo, byOthers = byGo+e.ByGo, byOthers+e.ByOthers
		return e.Remaining == 5
	})
	if byGo != 3 || byOthers != 0 || e.Texts["summary"] != "5 of 10 permits remain." {
		t.Errorf("after a grant: %d and %d, %+v", byGo, byOthers, e)
	}
	// As Redisson takes them.
	keys := wire.KeysOf("orders", "").Pairs[0]
	rdb.ZAdd(t.Context(), keys.Permits, redis.Z{
		Score:  float64(rdb.Time(t.Context()).Val().UnixMilli()),
		Member: redistest.JavaRecord(1, 1),
	})
	e = s.until("a grant of Java", func(e event) bool { return e.ByOthers == 1 })
	if len(e.Findings) != 1 || !strings.Contains(e.Findings[0].What, "above the rate") {
		t.Errorf("after a record without its value: %+v", e)
	}
	redistest.Must(l.Delete(t.Context()))(t)
	s.until("the end", func(e event) bool { return e.State == "gone" })
}

// A hundred viewers of a limiter cost one round trip a second, the next viewer is refused, and without
// viewers there are no round trips.
func TestViewersShareRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, trips := orders(t, web.Config{})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		var viewers sync.WaitGroup
		all := make([]*httptest.ResponseRecorder, 100)
		for i := range all {
			all[i] = httptest.NewRecorder()
			viewers.Go(func() { h.ServeHTTP(all[i], request(ctx, page("/live", "orders"))) })
		}
		time.Sleep(10*time.Second + time.Millisecond)
		if n := trips.Load(); n != 11 {
			t.Errorf("%d round trips in 10 s, want 11", n)
		}
		for _, name := range []string{"orders", "others"} {
			w := get(h, page("/live", name))
			if w.is(t, http.StatusServiceUnavailable); w.Header().Get("Retry-After") == "" {
				t.Errorf("viewer 101, of %s: %v", name, w.Header())
			}
		}
		// Pages of the limiter cost nothing more.
		for range 20 {
			get(h, page("/limiter", "orders")).is(t, http.StatusOK)
		}
		if n := trips.Load(); n != 11 {
			t.Errorf("20 pages have cost %d round trips", n-11)
		}
		leave()
		viewers.Wait()
		for i, w := range all {
			if n := events(w); n != 11 {
				t.Errorf("viewer %d has had %d events, want 11", i, n)
			}
		}
		time.Sleep(time.Minute)
		if n := trips.Load(); n != 11 {
			t.Errorf("%d more round trips without viewers", n-11)
		}
		// Without viewers the limiter is read once a second, however often its page is loaded.
		for range 100 {
			get(h, page("/limiter", "orders"))
			time.Sleep(100 * time.Millisecond)
		}
		if n := trips.Load() - 11; n > 11 {
			t.Errorf("%d round trips in 10 s", n)
		}
	})
}

// A slow viewer loses updates; the other viewers get theirs.
func TestSlowViewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := orders(t, web.Config{})
		ctx, leave := context.WithCancel(t.Context())
		var viewers sync.WaitGroup
		quick := httptest.NewRecorder()
		slow := &reader{ResponseRecorder: httptest.NewRecorder(), stuck: ctx.Done()}
		for _, w := range []http.ResponseWriter{slow, quick} {
			viewers.Go(func() { h.ServeHTTP(w, request(ctx, page("/live", "orders"))) })
		}
		time.Sleep(10*time.Second + time.Millisecond)
		leave()
		viewers.Wait()
		if n := events(quick); n != 11 {
			t.Errorf("%d events beside a slow viewer, want 11", n)
		}
	})
}

// Close ends the streams at once, and refuses later ones.
func TestCloseEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := orders(t, web.Config{})
		var viewers sync.WaitGroup
		for range 3 {
			viewers.Go(func() { get(h, page("/live", "orders")) })
		}
		time.Sleep(1500 * time.Millisecond)
		start := time.Now()
		_ = h.Close()
		viewers.Wait()
		if took := time.Since(start); took > 0 {
			t.Errorf("it took %v", took)
		}
		for _, target := range []string{"/", "/healthz", page("/live", "orders"),
			page("/limiter", "orders")} {
			get(h, target).is(t, http.StatusServiceUnavailable)
		}
		_ = h.Close()
	})
}

// While Redis is away, the stream and the probe say so, and go on when it is back. A probe needs no token and
// no right host name, and learns nothing else.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.MaxRetries = -1; o.DialerRetries = 1 })
	limiter(t, rdb, "orders", 10)
	h := site(t, rdb, web.Config{})
	private := handler(t, rdb, web.Config{Token: token, Hosts: []string{"localhost"}})
	probe := func() reply {
		return get(private, "/healthz", func(r *http.Request) { r.Host = "10.0.0.1:80" })
	}
	stream := follow(t, h.URL+page("/live", "orders"))
	stream.next()
	if body := probe().is(t, http.StatusOK); body != "ok\n" {
		t.Errorf("%q", body)
	}
	s.Stop()
	stream.until("it says so", func(e event) bool {
		return e.State == "error" && strings.HasPrefix(e.Texts["summary"], "Redis could not be read: ")
	})
	get(h.Config.Handler, page("/limiter", "orders")).is(t, http.StatusServiceUnavailable)
	redistest.Eventually(t, "the probe says so", func() bool {
		return probe().Code == http.StatusServiceUnavailable
	})
	s.Restart(t)
	stream.until("it goes on", func(e event) bool { return e.State == "gone" })
}

// Looking needs only the rights that docs/keys.md names, without those for locks, and writes nothing: Redis
// gets only commands that read.
func TestLookingOnlyReads(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	take(t, limiter(t, s.Client(t), "orders", 10), 1)
	perClient(t, s.Client(t), "users", "pod-1", 3)
	s.Admin().HSet(t.Context(), "lock", "5e4f0f64-8d3c-4bb4-9a63-3a0c6f1c2a11:52", 1) // needs more rights
	rules := slices.DeleteFunc(redistest.Rights(t, "../../../docs/keys.md", "looker", 1),
		func(rule string) bool { return slices.Contains([]string{"+hkeys", "+llen", "+lrange"}, rule) })
	redistest.Allow(t, "viewer", rules, s.Admin())
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "viewer", "secret" })
	h := site(t, rdb, web.Config{})
	sent := s.Monitor(t)
	for _, target := range []string{
		"/", "/?match=o*", page("/limiter", "orders"), page("/limiter", "users") + "&id=pod-1",
		"/healthz",
	} {
		get(h.Config.Handler, target).is(t, http.StatusOK)
	}
	get(h.Config.Handler, page("/limiter", "users")).is(t, http.StatusSeeOther)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		r := httptest.NewRequest(method, "http://localhost"+page("/limiter", "orders"), nil)
		do(h.Config.Handler, r).is(t, http.StatusMethodNotAllowed)
	}
	stream := follow(t, h.URL+page("/live", "orders"))
	stream.next()
	stream.next()
	reads := strings.Fields("multi exec time type pttl hmget hlen hscan getrange zcard zrange scan ping " +
		"hello client")
	commands := sent()
	for _, name := range commands {
		if !slices.Contains(reads, name) {
			t.Errorf("it sent %s", name)
		}
	}
	if !slices.Contains(commands, "hscan") || !slices.Contains(commands, "scan") {
		t.Errorf("it has not looked: %s", commands)
	}
}

// One search in ten seconds serves all viewers of the list.
func TestSearchesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, trips := orders(t, web.Config{})
		get(h, "/")
		once := trips.Load()
		for range 99 {
			var viewers sync.WaitGroup
			for range 10 {
				viewers.Go(func() { get(h, "/") })
			}
			viewers.Wait()
			time.Sleep(100 * time.Millisecond)
		}
		if n := trips.Load(); n != once {
			t.Errorf("%d round trips in 10 s, want %d", n, once)
		}
		time.Sleep(time.Second)
		if get(h, "/"); trips.Load() != 2*once {
			t.Error("the list is never searched for again")
		}
		// The number of patterns in a cache is bounded.
		busy := 0
		for i := range 100 {
			if w := get(h, "/?match="+strconv.Itoa(i)); w.Code == http.StatusServiceUnavailable {
				busy++
			}
		}
		if busy != 85 {
			t.Errorf("%d of 100 patterns were refused, want 85", busy)
		}
	})
}

// request asks for a page until ctx ends.
func request(ctx context.Context, target string) *http.Request {
	return httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+target, nil)
}

// A reader is a viewer that does not read until stuck closes.
type reader struct {
	*httptest.ResponseRecorder
	writes chan<- struct{} // gets a value for each write; nil for none
	stuck  <-chan struct{}
}

func (r *reader) Write(b []byte) (int, error) {
	if r.writes != nil {
		r.writes <- struct{}{}
	}
	<-r.stuck
	return r.ResponseRecorder.Write(b)
}

// events returns the number of events that a viewer has had.
func events(w *httptest.ResponseRecorder) int { return strings.Count(w.Body.String(), "data: ") }
