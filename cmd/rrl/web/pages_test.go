package web_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/web"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A visit is a browser at the pages of a Redis with two limiters.
type visit struct {
	*browser
	site   *httptest.Server
	orders *rratelimiter.RateLimiter
}

// remaining is the text that changes with each grant.
const remaining = `document.querySelector('[data-text=remaining]').textContent`

// The pages work in a browser, without messages in its console.
func TestInBrowser(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	v := &visit{orders: limiter(t, rdb, "orders", 100)}
	limiter(t, rdb, strings.Repeat("very-long-name:", 40), 10)
	perClient(t, rdb, "users", "pod-with-a-long-name-1", 3)
	v.site = site(t, rdb, web.Config{})
	v.browser = open(t)
	for _, step := range []struct {
		name string
		do   func(t *testing.T)
	}{
		{"live", v.live}, {"keyboard", v.keyboard}, {"widths", v.widths},
		{"schemes", v.schemes}, {"without scripts", v.withoutScripts},
	} {
		v.t = t
		t.Run(step.name, func(t *testing.T) {
			v.t = t
			step.do(t)
			if said := v.said(); said != "" {
				t.Errorf("the console says:\n%s", said)
			}
		})
	}
}

func (v *visit) goTo(target string) {
	v.t.Helper()
	v.do(chromedp.Navigate(v.site.URL + target))
}

// From the list to a limiter, whose page changes with each grant until it is paused.
func (v *visit) live(t *testing.T) {
	v.goTo("/")
	v.do(chromedp.Click(chromedp.CSS(`a[href="/limiter?name=orders"]`)))
	v.sees(`!!document.querySelector('#state.on')`)
	take(t, v.orders, 3)
	v.sees(remaining + ` === '97' && !document.getElementById('charts').hidden`)
	v.sees(`document.getElementById('alt-window').textContent === '3 permits taken by Go, 0 by others'`)
	v.sees(`document.querySelectorAll('#remaining .line').length === 1`)
	v.do(chromedp.Click(chromedp.CSS("#pause")))
	v.sees(`document.getElementById('state').textContent === 'Paused'`)
	take(t, v.orders, 7)
	other := follow(t, v.site.URL+page("/live", "orders"))
	other.until("the grant", func(e event) bool { return e.Remaining == 90 })
	other.next()
	if got := eval[string](v.browser, remaining); got != "97" {
		t.Errorf("a page that is paused shows %s", got)
	}
	v.do(chromedp.Click(chromedp.CSS("#pause")))
	v.sees(remaining + ` === '90'`)
	// Grants of the past are where they happened.
	v.goTo(page("/limiter", "orders"))
	v.sees(`!!document.querySelector('#grants .go')`)
	const widest = `Math.max(...[...document.querySelectorAll('#grants .go')]
		.map((one) => one.getBBox().width))`
	if px := eval[float64](v.browser, widest); px > 30 {
		t.Errorf("a grant is %v px wide", px)
	}
}

// Without a mouse: the focus is visible, and Tab, Enter and Space reach and pause a limiter.
func (v *visit) keyboard(t *testing.T) {
	v.goTo("/")
	v.keys("\t")
	if got := eval[string](v.browser, `document.activeElement.textContent`); got != "Skip to the content" {
		t.Errorf("the first Tab leads to %q", got)
	}
	v.keys("\r")
	tab := func(to string) {
		t.Helper()
		for range 30 {
			v.keys("\t")
			if eval[bool](v.browser, `document.activeElement.matches('`+to+`')`) {
				return
			}
		}
		t.Fatalf("Tab does not lead to %s", to)
	}
	tab(`a[href="/limiter?name=orders"]`)
	if eval[string](v.browser, `getComputedStyle(document.activeElement).outlineStyle`) != "solid" {
		t.Error("the focus is invisible")
	}
	v.keys("\r")
	v.sees(`!!document.querySelector('#state.on')`)
	tab("#pause")
	v.keys(" ")
	v.sees(`document.getElementById('state').textContent === 'Paused' &&
		document.getElementById('said').textContent === 'Paused.'`)
}

// pages are the addresses of all kinds of pages.
func (v *visit) pages() []string {
	return []string{
		"/", page("/limiter", "orders"), page("/limiter", "users"),
		page("/limiter", strings.Repeat("very-long-name:", 40)),
	}
}

// visits goes to all kinds of pages, and evaluates a script of testdata on each, whose result must be empty.
func (v *visit) visits(t *testing.T, script string) {
	t.Helper()
	text := string(redistest.Must(os.ReadFile("testdata/" + script))(t))
	for _, target := range v.pages() {
		v.goTo(target)
		if strings.HasPrefix(target, "/limiter") {
			v.sees(`!document.getElementById('charts').hidden`)
		}
		if bad := eval[string](v.browser, text); bad != "" {
			t.Errorf("%.40s, %s:\n%s", target, script, bad)
		}
	}
}

// On a phone no page is wider than the window, and in half a screen nothing is cut off.
func (v *visit) widths(t *testing.T) {
	v.do(chromedp.EmulateViewport(360, 740))
	v.visits(t, "overflow.js")
	v.do(chromedp.EmulateViewport(900, 800))
	v.visits(t, "cutoff.js")
	v.do(chromedp.EmulateViewport(1200, 800))
}

// Light and dark differ, and texts are readable in both.
func (v *visit) schemes(t *testing.T) {
	var backgrounds []string
	for _, scheme := range []string{"light", "dark"} {
		v.prefers("color-scheme", scheme)
		v.visits(t, "contrasts.js")
		background := eval[string](v.browser, `getComputedStyle(document.body).backgroundColor`)
		backgrounds = append(backgrounds, background)
	}
	if backgrounds[0] == backgrounds[1] {
		t.Errorf("light and dark are both %s", backgrounds[0])
	}
}

// Without scripts the page shows the last state, and reloads.
func (v *visit) withoutScripts(t *testing.T) {
	redistest.Must(chromedp.Call(v.ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true}))(t)
	v.goTo(page("/limiter", "orders"))
	text := redistest.Must(chromedp.Run(v.ctx, chromedp.Text(chromedp.CSS("main"))))(t)
	for _, part := range []string{"of 100 permits", "loads again every 10 s", "Nothing is wrong",
		"{orders}:permits"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page does not say %q:\n%s", part, text)
		}
	}
}

// A browser is a tab of a headless Chromium.
type browser struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	messages []string // of its console; guarded by mu
}

// open starts a Chromium, which ends with the test.
func open(t testing.TB) *browser {
	t.Helper()
	opts := slices.Concat(chromedp.DefaultExecAllocatorOptions[:], []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(redistest.Require(t, "chromium")), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute),
	})
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	ctx, ended := chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(ended)
	ctx, closed := chromedp.NewContext(ctx)
	b := &browser{t: t, ctx: ctx}
	messages, read := chromedp.Console(ctx), make(chan struct{})
	go func() {
		defer close(read)
		for m, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.messages = append(b.messages, m.String()+" "+m.URL)
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // ends the process, before its directory is removed
		closed()
		<-read
	})
	b.do(chromedp.Navigate("about:blank"))
	return b
}

// said returns the new messages of the console, such as errors of scripts and breaches of the CSP.
func (b *browser) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := strings.Join(b.messages, "\n")
	b.messages = nil
	return said
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	redistest.NoError(b.t, chromedp.Do(b.ctx, actions...))
}

func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// sees waits until an expression is true. During a navigation it has no value.
func (b *browser) sees(expression string) {
	b.t.Helper()
	redistest.Until(b.t, expression, func() error {
		value, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](expression))
		if err == nil && !value {
			err = errors.New("false")
		}
		return err
	})
}

// prefers sets a preference of the user, such as color-scheme.
func (b *browser) prefers(name, value string) {
	b.t.Helper()
	redistest.Must(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-" + name, Value: value}},
	}))(b.t)
}

// keys presses keys, one after another.
func (b *browser) keys(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}
