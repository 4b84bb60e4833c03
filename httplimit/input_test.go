package httplimit_test

import (
	"errors"
	"math"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/httplimit"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// A wrong limiter is misconfigured.
type wrong struct{ limit.Ledger }

func (wrong) Validate() error { return limit.ErrMisconfigured }

// Invalid arguments are refused with an error that names the argument, its value and the bound.
func TestInvalidArguments(t *testing.T) {
	const brief = 999 * time.Microsecond
	const mapped = "::ffff:10.0.0.0/104" // contains nothing
	long := strings.Repeat("x", 65)
	hook := func(*http.Request, httplimit.Decision) {}
	keyed := newMemory(t, 1, time.Second)
	with := func(opt httplimit.Option) error { _, err := httplimit.New(keyed, all, opt); return err }
	pacer := func(opt httplimit.PacerOption) error {
		_, err := httplimit.NewPacer(nil, keyed, opt)
		return err
	}
	retryAfter := func(opt httplimit.RetryAfterOption) error {
		_, err := httplimit.NewRetryAfterTransport(nil, opt)
		return err
	}
	allows := limit.Shared(limit.Func(keyed.Allow))
	for want, err := range map[string]error{
		"New: keyed is <nil>, must not be nil":              second(httplimit.New[limit.Ledger](nil, all)),
		"New: key is <nil>, must not be nil":                second(httplimit.New(keyed, nil)),
		"New: option 1 is <nil>, must not be nil":           with(nil),
		"WithCost: cost is <nil>, must not be nil":          with(httplimit.WithCost(nil)),
		"WithTimeout: d is 999µs, must be at least 1ms":     with(httplimit.WithTimeout(brief)),
		"WithFallback: f is 2, must be one of the Fallback": with(httplimit.WithFallback(2)),
		"WithNearLimit: share is 0, must be more":           with(httplimit.WithNearLimit(0, hook)),
		"WithNearLimit: share is 1.1, must be more":         with(httplimit.WithNearLimit(1.1, hook)),
		"WithNearLimit: share is NaN, must be more":         with(httplimit.WithNearLimit(math.NaN(), hook)),
		"WithNearLimit: hook is <nil>, must not be nil":     with(httplimit.WithNearLimit(1, nil)),
		"WithRefusedHook: hook is <nil>, must not be":       with(httplimit.WithRefusedHook(nil)),
		"WithErrorHook: hook is <nil>, must not be nil":     with(httplimit.WithErrorHook(nil)),
		"WithResponse: write is <nil>, must not be nil":     with(httplimit.WithResponse(nil)),
		"WithFields: fields is 8, must be made of the":      with(httplimit.WithFields(8)),
		"WithFields: fields is -1, must be made of the":     with(httplimit.WithFields(-1)),
		`WithPolicies: name 1 is "", must have 1 to 64`:     with(httplimit.WithPolicies("")),
		`WithPolicies: name 2 is "é", must have 1 to 64`:    with(httplimit.WithPolicies("a", "é")),
		`WithPolicies: name 1 is "a\n", must have 1 to 64`:  with(httplimit.WithPolicies("a\n")),
		`WithPolicies: name 2 is "a", must be there once`:   with(httplimit.WithPolicies("a", "a")),
		`WithPolicies: name 1 is "xxxxx`:                    with(httplimit.WithPolicies(long)),
		"ByAddressVia: proxies is empty, must name":         second(httplimit.ByAddressVia()),
		`ByAddressVia: proxy 2 is "10/8", must be an`:       second(httplimit.ByAddressVia("::1", "10/8")),
		`ByAddressVia: proxy 1 is "fe80::1%a", must be an`:  second(httplimit.ByAddressVia("fe80::1%a")),
		`ByAddressVia: proxy 1 is "::ffff:10.0`:             second(httplimit.ByAddressVia(mapped)),
		"ByAddressViaCount: n is 0, must be at least 1":     second(httplimit.ByAddressViaCount(0)),
		"FirstOf: keys is empty, must have one or more":     second(httplimit.FirstOf()),
		"FirstOf: key 2 is <nil>, must not be nil":          second(httplimit.FirstOf(all, nil)),
		"NewPacer: limiter is <nil>, must not be nil":       second(httplimit.NewPacer(nil, nil)),
		"NewPacer: option 1 is <nil>, must not be nil":      pacer(nil),
		"WithMaxWait: d is 0s, must be more than 0":         pacer(httplimit.WithMaxWait(0)),
		"NewKeyedPacer: keyed is <nil>, must not": second(
			httplimit.NewKeyedPacer[limit.Ledger](nil, nil, all)),
		"NewKeyedPacer: key is <nil>, must not":           second(httplimit.NewKeyedPacer(nil, keyed, nil)),
		"NewRules: rules is <nil>, must not be nil":       second(httplimit.NewRules(nil, nil)),
		"NewRules: option 1 is <nil>, must not be":        second(httplimit.NewRules(&holding{}, nil, nil)),
		"WithAddress: address is <nil>, must not":         with(httplimit.WithAddress(nil)),
		"NewRetryAfterTransport: option 1 is <nil>":       retryAfter(nil),
		"WithMaxDelay: d is 0s, must be more than 0":      retryAfter(httplimit.WithMaxDelay(0)),
		"WithRetries: n is 11, must be 0 to 10":           retryAfter(httplimit.WithRetries(11)),
		"WithRetries: n is -1, must be 0 to 10":           retryAfter(httplimit.WithRetries(-1)),
		"WithActual: actual is <nil>, must not be nil":    with(httplimit.WithActual(nil)),
		"WithReserve: estimate is <nil>, must not be nil": pacer(httplimit.WithReserve(nil, tokens)),
		"WithSettleErrorHook: hook is <nil>, must not be": pacer(httplimit.WithSettleErrorHook(nil)),
		"New: the limiter is no limit.Reserver, must be one for WithSettle": second(
			httplimit.New(allows, all, httplimit.WithSettle())),
		"New: the limiter is no limit.Reserver, must be one for WithSettle and WithActual": second(
			httplimit.New(allows, all, httplimit.WithActual(bytesSent))),
		"NewKeyedPacer: the limiter is no limit.Reserver, must be one for WithReserve": second(
			httplimit.NewKeyedPacer(nil, allows, all, httplimit.WithReserve(ten, nil))),
	} {
		if !errors.Is(err, limit.ErrInvalidArgument) ||
			!strings.HasPrefix(err.Error(), "rratelimiter: invalid argument of httplimit."+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestMisconfiguredLimiter(t *testing.T) {
	_, err := httplimit.New(wrong{newMemory(t, 1, time.Second)}, all)
	if !errors.Is(err, limit.ErrMisconfigured) {
		t.Errorf("New: %v", err)
	}
}

func TestBounds(t *testing.T) {
	hook := func(*http.Request, httplimit.Decision) {}
	newMiddleware(t, newMemory(t, 1, time.Second), all, httplimit.WithTimeout(time.Millisecond),
		httplimit.WithNearLimit(1, hook), httplimit.WithPolicies(strings.Repeat("x", 64), ` "\~`))
	for _, retries := range []int{0, 10} {
		_, err := httplimit.NewRetryAfterTransport(nil,
			httplimit.WithRetries(retries), httplimit.WithMaxDelay(1))
		if err != nil {
			t.Error(err)
		}
	}
}

// The package imports no package of another module, and knows nothing of Redis.
func TestImports(t *testing.T) {
	const format = "{{if not .Standard}}{{.ImportPath}}{{end}}"
	out := redistest.Must(
		exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, ".").Output())(t)
	const module = "github.com/redisson-go/rratelimiter/"
	got := strings.Join(strings.Fields(strings.ReplaceAll(string(out), module, "")), " ")
	if got != "internal/pause limit internal/admission httplimit" {
		t.Errorf("imports %s", got)
	}
}
