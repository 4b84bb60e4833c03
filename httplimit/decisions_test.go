package httplimit_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/admission/admissiontest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

type asked = admissiontest.Request

// Each request gets what the table says. One with an invalid key or cost does not bypass the limit.
func TestDecisions(t *testing.T) {
	noLimit := fmt.Errorf("%w: health", httplimit.ErrNoLimit)
	admissiontest.Protocol{
		Column: func(d admissiontest.Decision) string { return d.HTTP }, OK: "200", Failed: "503",
		Serve: decide,
	}.Play(t, []admissiontest.Decision{
		{Name: "no key", Request: asked{KeyErr: httplimit.ErrNoKey, Cost: 1}, HTTP: "400, about:blank"},
		{Name: "no limit", Request: asked{KeyErr: noLimit, Cost: 1}, HTTP: "200"},
		{Name: "no limit for a cost", Request: asked{Cost: 5, CostErr: noLimit}, HTTP: "200"},
		{Name: "the cost fails", Request: asked{Cost: 1, CostErr: errSecret},
			HTTP: "503, temporary-reduced-capacity []"},
	}...)
}

// problem is a problem document (RFC 9457).
type problem struct {
	Type, Title, Detail string
	Status              int
	Violated            []string `json:"violated-policies"`
}

func decide(
	t *testing.T, d admissiontest.Decision, open, shadow bool, limiter limit.Keyed[limit.Func],
) (visitor string, told []error) {
	var seen httplimit.Decision
	hook := func(_ *http.Request, d httplimit.Decision) { seen, told = d, append(told, d.Err) }
	opts := []httplimit.Option{httplimit.WithRefusedHook(hook), httplimit.WithErrorHook(hook),
		httplimit.WithCost(func(*http.Request) (int64, error) { return d.Request.Cost, d.Request.CostErr })}
	if open {
		opts = append(opts, httplimit.WithFallback(httplimit.FallbackAllow))
	}
	if shadow {
		opts = append(opts, httplimit.WithShadow())
	}
	w := visit(newMiddleware(t, limiter, keyIs(admissiontest.Key, d.Request.KeyErr), opts...), get(t))
	status(t, w, w.Code) // which looks for secrets
	visitor = strings.Join(slices.Concat([]string{strconv.Itoa(w.Code)},
		w.Header().Values("RateLimit"), w.Header().Values("Retry-After")), ", ")
	if would := cmp.Or(seen.Status, http.StatusOK); !shadow && would != w.Code ||
		shadow && told != nil && !strings.HasPrefix(d.HTTP, strconv.Itoa(would)) {
		t.Errorf("the hook received %+v", seen)
	}
	if w.Code == http.StatusOK {
		return strings.TrimSuffix(visitor+" "+w.Body.String(), " welcome"), told
	}
	var p problem
	redistest.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
	header(t, w.Header(), map[string]string{
		"Content-Type": "application/problem+json", "Access-Control-Expose-Headers": "",
	})
	if p.Status != w.Code || p.Title == "" {
		t.Errorf("%+v", p)
	}
	visitor += ", " + strings.TrimPrefix(p.Type, "https://iana.org/assignments/http-problem-types#")
	if p.Violated != nil {
		visitor += fmt.Sprint(" ", p.Violated)
	}
	return visitor, told
}

// An empty key and a cost below 0 are errors.
func TestEmptyKeysAndCostsBelowZero(t *testing.T) {
	for cost, key := range map[int64]string{1: "", 0: "", -1: "k"} {
		m := newMiddleware(t, silent, keyIs(key, nil), estimated(cost))
		status(t, visit(m, get(t)), http.StatusBadRequest)
	}
}
