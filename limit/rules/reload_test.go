package rules_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

func TestAnUnchangedLimitKeepsItsState(t *testing.T) {
	const before = `
rules:
  - {name: a, match: {route: /a}, by: user, limits: [{rate: 5/1h}]}
  - {name: b, match: {route: /b}, limits: [{rate: 5/1h}]}`
	const five = "by: user, limits: [{rate: 5, per: 60m}]}]"
	a := of("alice")
	a.Path = "/a"
	for what, after := range map[string]struct {
		text string
		left int
	}{
		"the same":      {before, 2},
		"another route": {"rules: [{name: a, match: {route: '/{x}'}, " + five, 2},
		"another order": {"rules: [{name: c, exempt: true}, {name: a, match: {route: /a}, " + five, 2},
		"another rate":  {"rules: [{name: a, match: {route: /a}, by: user, limits: [{rate: 6/1h}]}]", 6},
		"another time":  {"rules: [{name: a, match: {route: /a}, by: user, limits: [{rate: 5/2h}]}]", 5},
		"another name":  {"rules: [{name: x, " + five, 5},
		"another algorithm": {
			"rules: [{name: a, by: user, limits: [{rate: 5/1h, algorithm: fixed-window}]}]", 5,
		},
		"goes by other": {"rules: [{name: a, by: [user, route], limits: [{rate: 5/1h}]}]", 5},
	} {
		r := inMemory(t, before)
		allow(t, r, a, 3)
		redistest.NoError(t, r.Reload(parsed(t, after.text)))
		t.Log(what)
		wantAllowed(t, r, a, after.left)
	}
}

// While callers ask without a pause, the rules are replaced again and again. The limit of all files grants
// exactly its rate. Each call is decided by one file: its two other limits are of the same.
func TestReloadUnderLoad(t *testing.T) {
	const rate, callers = 3000, 8
	text := func(version int) string {
		return fmt.Sprintf(`
rules:
  - {name: kept, also: true, limits: [{rate: %d/1h}]}
  - name: other
    limits: [{name: v%d, rate: 1000000/1h}, {name: w%d, rate: 100000%d/1h, algorithm: fixed-window}]`,
			rate, version, version, version)
	}
	r := inMemory(t, text(0))
	var granted, asked atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	var reloads sync.WaitGroup
	reloads.Go(func() {
		for version := 1; ctx.Err() == nil; version++ {
			if err := r.Reload(parsed(t, text(version%10))); err != nil {
				t.Error(err)
			}
		}
	})
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 2 * rate / callers {
				g := allow(t, r, get("/"), 1)
				asked.Add(1)
				if !g.Allowed {
					continue
				}
				granted.Add(1)
				v, w := g.Each[1].Policy, g.Each[2].Policy
				if v[len("other/v"):] != w[len("other/w"):] {
					t.Errorf("%s and %s decide together", v, w)
				}
			}
		})
	}
	all.Wait()
	stop()
	reloads.Wait()
	if granted.Load() != rate {
		t.Errorf("%d granted of %d asked for, want %d", granted.Load(), asked.Load(), rate)
	}
}

const every = 10 * time.Second

// write writes a file in place, as most programs do.
func write(t *testing.T, name, text string) {
	t.Helper()
	redistest.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// A watched is Rules that watch a file, in a bubble.
type watched struct {
	t    *testing.T
	name string

	mu    sync.Mutex
	notes []error // guarded by mu
}

// watch watches until stop is called.
func (w *watched) watch(r *rules.Rules) (stop func() error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error)
	go func() {
		ended <- r.Watch(ctx, w.name, every, func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.notes = append(w.notes, err)
		})
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// settle lets a number of looks pass.
func (w *watched) settle(looks int) {
	time.Sleep(time.Duration(looks) * every)
	synctest.Wait()
}

// wantNotes expects the notifications since its last call: an empty text for nil.
func (w *watched) wantNotes(what string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.notes) != len(want) {
		w.t.Fatalf("%s: notified of %v, want %q", what, w.notes, want)
	}
	for i, err := range w.notes {
		if (err == nil) != (want[i] == "") || err != nil && !strings.Contains(err.Error(), want[i]) {
			w.t.Fatalf("%s: notified of %v, want %q", what, err, want[i])
		}
	}
	w.notes = nil
}

func TestWatchAppliesChanges(t *testing.T) {
	text := func(rate string) string { return file("limits: [{rate: " + rate + "/1h}]") }
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, text("5"))
		w := &watched{t: t, name: filepath.Join(t.TempDir(), "rules.yaml")}
		write(t, w.name, text("5"))
		stop := w.watch(r)

		w.settle(3)
		w.wantNotes("the file of the Set")
		allow(t, r, get("/"), 3)

		write(t, w.name, text("7"))
		w.settle(1)
		w.wantNotes("a file that may be half written")
		w.settle(1)
		w.wantNotes("a file that was the same twice", "")
		wantAllowed(t, r, get("/"), 7)

		write(t, w.name, text("-1"))
		w.settle(5)
		w.wantNotes("a mistake", w.name+": line 3: rate is -1, must be 1 to 2^40")
		if g := allow(t, r, get("/"), 1); g.Limit != 7 || g.Remaining != 0 {
			t.Errorf("after a mistake %+v, want the earlier rules", g)
		}

		redistest.NoError(t, os.Remove(w.name))
		w.settle(5)
		w.wantNotes("no file", "no such file")

		write(t, w.name, text("7"))
		w.settle(5)
		w.wantNotes("the file that is applied")
		wantAllowed(t, r, get("/"), 0)

		formtest.Fails(t, context.Canceled, stop())
	})
}

// A ConfigMap of Kubernetes is a link to a directory, which is replaced.
func TestWatchFollowsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for _, version := range []string{"5", "7"} {
			redistest.NoError(t, os.Mkdir(filepath.Join(dir, version), 0o700))
			write(t, filepath.Join(dir, version, "rules.yaml"), file("limits: [{rate: "+version+"/1h}]"))
		}
		link := filepath.Join(dir, "data")
		redistest.NoError(t, os.Symlink("5", link))
		r := inMemory(t, file("limits: [{rate: 5/1h}]"))
		w := &watched{t: t, name: filepath.Join(link, "rules.yaml")}
		stop := w.watch(r)
		w.settle(2)
		redistest.NoError(t, os.Symlink("7", link+"2"))
		redistest.NoError(t, os.Rename(link+"2", link))
		w.settle(2)
		w.wantNotes("another link", "")
		_ = stop()
		wantAllowed(t, r, get("/"), 7)
	})
}
