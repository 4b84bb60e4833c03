package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

// policy allows what the page consists of: its own script, style and requests. Whatever a name
// may contain, nothing else runs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers adds what every response has.
func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		set := w.Header().Set
		set("Content-Security-Policy", policy)
		set("Referrer-Policy", "no-referrer")
		set("X-Content-Type-Options", "nosniff")
		set("Cross-Origin-Opener-Policy", "same-origin")
		set("Cross-Origin-Resource-Policy", "same-origin")
		set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// hosts refuses requests for names that are not ours.
func (h *Handler) hosts(next http.Handler) http.Handler {
	if len(h.config.Hosts) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.Trim(host, "[]")
		own := func(name string) bool { return strings.EqualFold(name, host) }
		if !slices.ContainsFunc(h.config.Hosts, own) {
			http.Error(w, "This server is not reached by that name.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// private asks for the token where reading needs it.
func (h *Handler) private(next http.HandlerFunc) http.HandlerFunc {
	if !h.config.Private {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		_, password, given := r.BasicAuth()
		status := http.StatusUnauthorized
		if given {
			status = h.tokens.check(r, password)
		}
		if status == http.StatusOK {
			next(w, r)
			return
		}
		if status != http.StatusTooManyRequests {
			status = http.StatusUnauthorized
			w.Header().Set("WWW-Authenticate",
				`Basic realm="Rate limiters: the token is the password", charset="UTF-8"`)
		}
		http.Error(w, refusals[status], status)
	}
}

// refusals are what is said about a token that is not right.
var refusals = map[int]string{
	http.StatusUnauthorized:    "The token is the password. Any user name will do.",
	http.StatusForbidden:       "The token is wrong. Nothing was changed.",
	http.StatusTooManyRequests: "Too many wrong tokens came from this address. Try again in a minute.",
}

// Tokens check the token, and bound the guesses at it.
type tokens struct {
	sum [sha256.Size]byte

	mu    sync.Mutex
	wrong map[string]*rate.Limiter // by address; guarded by mu
}

const (
	guesses       = 5    // that may follow one another; then one in a minute
	mostAddresses = 1000 // that are remembered
)

func newTokens(token string) *tokens {
	return &tokens{sum: sha256.Sum256([]byte(token)), wrong: map[string]*rate.Limiter{}}
}

// check compares a token with ours. It returns 200, 403 if it is wrong, and 429 without a look at
// it after too many wrong ones.
func (t *tokens) check(r *http.Request, token string) (status int) {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	if ip := net.ParseIP(address); ip != nil && ip.To4() == nil {
		address = ip.Mask(net.CIDRMask(64, 128)).String() // of one network, as it is given to a customer
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	bound := t.wrong[address]
	if bound != nil && bound.Tokens() < 1 {
		return http.StatusTooManyRequests
	}
	sum := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1 {
		return http.StatusOK
	}
	if bound == nil {
		if len(t.wrong) >= mostAddresses {
			clear(t.wrong) // a token of 16 bytes stands more guesses than that lets through
		}
		bound = rate.NewLimiter(rate.Limit(1.0/60), guesses)
		t.wrong[address] = bound
	}
	bound.Allow()
	return http.StatusForbidden
}
