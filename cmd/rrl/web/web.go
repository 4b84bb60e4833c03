package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/inspect"
)

// Config says what a Handler shows, and to whom. The zero value shows all limiters to all who reach the
// Handler.
type Config struct {
	// Prefix is the path under which the Handler is mounted. It begins and ends with a slash. The
	// default is "/".
	Prefix string

	// Match is a pattern of Redis for the names of limiters: no other limiters are listed or shown. A bracket
	// must be closed, and a backslash must precede a character. The default matches all.
	Match string

	// Mask shows a short hash in place of each name, key and id of a client, the same for the life of the
	// Handler. Names never leave the server then, and there is no search for them.
	Mask bool

	// Token is the secret that readers must give: as the password of HTTP Basic authentication, with any user
	// name. It has at least 16 bytes. The default is none, which lets all read.
	Token string

	// Hosts are the names and addresses by which the Handler is reached, without ports and brackets; a
	// request for any other is refused. This keeps other web sites from reading a Handler on localhost by a
	// name of their own (DNS rebinding). The default is any.
	Hosts []string
}

const (
	leastToken  = 16
	mostListed  = 200 // limiters and locks of a list
	mostViewers = 100 // of limiters at a time; the next one is refused with 503
	longestName = 8 << 10
	mostLinks   = 1 << 20 // bytes of all links of a list
)

// complete sets the defaults and validates the Config.
func (c *Config) complete() error {
	c.Prefix, c.Match = cmp.Or(c.Prefix, "/"), cmp.Or(c.Match, "*")
	_, malformed := path.Match(bytewise(c.Match), "")
	switch {
	case !validPrefix.MatchString(c.Prefix), strings.Contains(c.Prefix, "/./"),
		strings.Contains(c.Prefix, "/../"):
		return refuse("Prefix", fmt.Sprintf("%q", c.Prefix), `be a path such as "/limits/"`)
	case malformed != nil:
		return refuse("Match", fmt.Sprintf("%q", c.Match), `be a pattern such as "user:*" or "[ab]?"`)
	case c.Token != "" && len(c.Token) < leastToken: // its value stays secret
		had := fmt.Sprintf("of %d bytes", len(c.Token))
		return refuse("Token", had, fmt.Sprintf("have at least %d", leastToken))
	}
	return nil
}

// validPrefix are the paths that a ServeMux does not clean.
var validPrefix = regexp.MustCompile(`^/([\w.~-]+/)*$`)

func refuse(field string, value any, bound string) error {
	return fmt.Errorf("web: %s is %v, must %s", field, value, bound)
}

// A Handler is the pages. It is safe for concurrent use.
type Handler struct {
	config Config
	rdb    redis.UniversalClient
	handle http.Handler

	ctx   context.Context // ends with Close
	close context.CancelFunc

	mu         sync.Mutex     // held when ctx ends, and when a goroutine is counted
	background sync.WaitGroup // the goroutines; Add under mu

	tokens  *tokens
	masks   *masks
	writing chan struct{} // one element for each page on its way to a viewer
	turn    chan struct{} // held by the search through the keys that is in progress
	lists   *cache[*list]
	clients *cache[[]string]
	health  *cache[struct{}]
	watches watches
}

// New returns a Handler for the limiters of a Redis. Close does not close rdb. An error names the field of
// the Config that is out of its bounds.
func New(rdb redis.UniversalClient, config Config) (*Handler, error) {
	if rdb == nil {
		return nil, errors.New("web: rdb is nil, must be a go-redis client")
	}
	if err := config.complete(); err != nil {
		return nil, err
	}
	h := &Handler{
		config: config, rdb: rdb,
		turn: make(chan struct{}, 1), writing: make(chan struct{}, mostViewers),
	}
	h.ctx, h.close = context.WithCancel(context.Background())
	h.tokens, h.masks = newTokens(config.Token), newMasks()
	h.lists = newCache[*list](h, searches, resting)
	h.clients = newCache[[]string](h, searches, resting)
	h.health = newCache[struct{}](h, 1, time.Second)
	h.watches = watches{h: h, by: map[string]*watch{}}
	h.handle = h.routes()
	return h, nil
}

const (
	searches = 16               // results of searches in a cache
	resting  = 10 * time.Second // between two searches for the same pattern
)

// routes returns the pages and their guards.
func (h *Handler) routes() http.Handler {
	pages := http.NewServeMux()
	read := func(pattern string, page http.HandlerFunc) {
		pages.Handle("GET "+h.config.Prefix+pattern, h.private(page))
	}
	read("{$}", h.listPage)
	read("limiter", h.limiterPage)
	read("live", h.live)
	read("static/{file}", static)
	all := http.NewServeMux()
	all.HandleFunc("GET "+h.config.Prefix+"healthz", h.healthz) // under any host name
	all.Handle("/", h.hosts(pages))
	return headers(all)
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.handle.ServeHTTP(w, r) }

// Close ends all live pages and waits up to a second for the goroutines of the Handler: one that waits for a
// silent Redis ends with the timeouts of go-redis. It always returns nil; closing twice is allowed.
func (h *Handler) Close() error {
	h.mu.Lock()
	h.close()
	h.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		h.background.Wait()
		close(ended)
	}()
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	return nil
}

// goWith runs f in the background, with a context that ends with Close. It returns false if the Handler is
// closed.
func (h *Handler) goWith(f func(ctx context.Context)) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return false
	}
	h.background.Go(func() { f(h.ctx) })
	return true
}

// healthz says whether Redis replies, and nothing else.
func (h *Handler) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	_, err := h.health.get(ctx, "", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, h.rdb.Ping(ctx).Err()
	})
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "unavailable")
		return
	}
	fmt.Fprintln(w, "ok")
}

// read reads a limiter: its shared pair, and the pairs of clients.
func (h *Handler) read(ctx context.Context, hash string, ids []string) (*inspect.Limiter, error) {
	const longest = 3 * time.Second // a slower reply counts as a failure
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	return inspect.Read(ctx, h.rdb, hash, inspect.Few, ids...)
}
