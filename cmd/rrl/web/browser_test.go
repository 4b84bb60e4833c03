package web_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

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

// eval returns the value of an expression.
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
