package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/redisson-go/rratelimiter/internal/admission"
)

// policy allows the page's own script, style and requests. Nothing else runs, whatever a name contains.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// headers adds the headers of every response.
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

// hosts refuses requests for other host names.
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
		isHost := func(name string) bool { return strings.EqualFold(name, host) }
		if !slices.ContainsFunc(h.config.Hosts, isHost) {
			http.Error(w, "This server has another name.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// private asks for the token, if there is one.
func (h *Handler) private(next http.HandlerFunc) http.HandlerFunc {
	if h.config.Token == "" {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) {
		_, password, given := r.BasicAuth()
		status := http.StatusUnauthorized
		if given {
			status = h.tokens.check(r, password)
		}
		switch status {
		case http.StatusOK:
			next(w, r)
		case http.StatusTooManyRequests:
			http.Error(w, "Too many wrong tokens came from this address. Try again in a minute.", status)
		default:
			w.Header().Set("WWW-Authenticate",
				`Basic realm="Rate limiters: the token is the password", charset="UTF-8"`)
			http.Error(w, "The token is the password. Any user name will do.", status)
		}
	}
}

// tokens checks the token, and bounds the guesses.
type tokens struct {
	sum [sha256.Size]byte

	mu    sync.Mutex
	wrong map[string]*rate.Limiter // by address; guarded by mu
}

const (
	guesses       = 5    // consecutive; then one a minute
	mostAddresses = 1000 // with guesses
)

func newTokens(token string) *tokens {
	return &tokens{sum: sha256.Sum256([]byte(token)), wrong: map[string]*rate.Limiter{}}
}

// check compares a token with ours. It returns 200, 401 for a wrong token, and 429 without a comparison after
// too many wrong ones.
func (t *tokens) check(r *http.Request, token string) (status int) {
	address := r.RemoteAddr
	if ip, ok := admission.ParseAddr(address); ok {
		address = admission.AddressKey(ip)
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
			clear(t.wrong) // a token of 16 bytes withstands the additional guesses
		}
		bound = rate.NewLimiter(rate.Limit(1.0/60), guesses)
		t.wrong[address] = bound
	}
	bound.Allow()
	return http.StatusUnauthorized
}

// masks are hashes that stand for names and ids. They need a secret key: without it, a viewer could hash
// names until one gives a mask on the page.
type masks struct {
	key [32]byte

	mu sync.Mutex
	of map[string]string // texts by the masks that were given out; guarded by mu
}

const (
	maskBytes = 8
	mostMasks = 20_000 // more than a list and the clients of its limiters have
)

func newMasks() *masks {
	m := &masks{of: map[string]string{}}
	_, _ = rand.Read(m.key[:]) // it never fails
	return m
}

// mask returns the mask of a text.
func (m *masks) mask(text string) string {
	sum := hmac.New(sha256.New, m.key[:])
	_, _ = sum.Write([]byte(text)) // a hash takes everything
	mask := hex.EncodeToString(sum.Sum(nil)[:maskBytes])
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.of) >= mostMasks {
		clear(m.of) // the next look at the list restores them
	}
	m.of[mask] = text
	return mask
}

// unmask returns the text behind a mask, if the mask was given out.
func (m *masks) unmask(mask string) (text string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok = m.of[mask]
	return text, ok
}

// public returns a name or an id as viewers see it.
func (h *Handler) public(text string) string {
	if h.config.Mask && text != "" {
		return h.masks.mask(text)
	}
	return text
}

// The bounds of a viewer's pattern. Old Redis releases take very long to match many stars.
const (
	longestPattern = 200
	mostStars      = 4
)

// checkPattern returns an error if a viewer's pattern is refused.
func checkPattern(pattern string) error {
	if n := len(pattern); n > longestPattern {
		return fmt.Errorf("the pattern has %d bytes, must have at most %d", n, longestPattern)
	}
	if n := strings.Count(pattern, "*"); n > mostStars {
		return fmt.Errorf("the pattern has %d stars, must have at most %d", n, mostStars)
	}
	return nil
}

// matches reports whether a name matches Config.Match, as it would in Redis.
func (h *Handler) matches(name string) bool {
	ok, _ := path.Match(bytewise(h.config.Match), bytewise(name)) // complete has checked the pattern
	return ok
}

// bytewise returns a text with a rune for each byte, because Redis matches bytes. A slash, where the stars of
// path.Match end, becomes a rune that is no byte.
func bytewise(text string) string {
	const slash = 0x100
	runes := make([]rune, len(text))
	for i := range runes {
		if runes[i] = rune(text[i]); text[i] == '/' {
			runes[i] = slash
		}
	}
	return string(runes)
}
