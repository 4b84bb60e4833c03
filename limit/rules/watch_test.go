package rules_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/rules"
)

const every = 10 * time.Second

// write writes a file as most programs do, in place.
func write(t *testing.T, name, text string) {
	t.Helper()
	redistest.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// A watched is Rules that watch a file, in a bubble.
type watched struct {
	t    *testing.T
	name string

	mu   sync.Mutex
	told []error // guarded by mu
}

// watch starts to watch, until stop is called.
func (w *watched) watch(r *rules.Rules) (stop func() error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error)
	go func() {
		ended <- r.Watch(ctx, w.name, every, func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told = append(w.told, err)
		})
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

// settle lets so many looks pass.
func (w *watched) settle(looks int) {
	time.Sleep(time.Duration(looks) * every)
	synctest.Wait()
}

// wantTold expects that told was called once since the last time, or not at all.
func (w *watched) wantTold(what string, want ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) != len(want) {
		w.t.Fatalf("%s: told %v, want %q", what, w.told, want)
	}
	for i, err := range w.told {
		if (err == nil) != (want[i] == "") || err != nil && !strings.Contains(err.Error(), want[i]) {
			w.t.Fatalf("%s: told %v, want %q", what, err, want[i])
		}
	}
	w.told = nil
}

func TestWatchAppliesWhatHasChanged(t *testing.T) {
	text := func(rate string) string { return file("limits: [{rate: " + rate + "/1h}]") }
	synctest.Test(t, func(t *testing.T) {
		r := inMemory(t, text("5"))
		w := &watched{t: t, name: filepath.Join(t.TempDir(), "rules.yaml")}
		write(t, w.name, text("5"))
		stop := w.watch(r)

		w.settle(3)
		w.wantTold("the file of the Set")
		allow(t, r, get("/"), 3)

		write(t, w.name, text("7"))
		w.settle(1)
		w.wantTold("a file that may be half written")
		w.settle(1)
		w.wantTold("a file that was the same twice", "")
		wantAllowed(t, r, get("/"), 7)

		write(t, w.name, text("-1"))
		w.settle(5)
		w.wantTold("a mistake", w.name+": line 3: rate is -1, must be 1 to 2^40")
		if g := allow(t, r, get("/"), 1); g.Limit != 7 || g.Remaining != 0 {
			t.Errorf("after a mistake %+v, want the rules of before", g)
		}

		redistest.NoError(t, os.Remove(w.name))
		w.settle(5)
		w.wantTold("no file", "no such file")

		write(t, w.name, text("7"))
		w.settle(5)
		w.wantTold("the file that is applied")
		wantAllowed(t, r, get("/"), 0)

		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Watch returns %v, want Canceled", err)
		}
	})
}

// A ConfigMap of Kubernetes is a link to a directory that is exchanged.
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
		w.wantTold("another link", "")
		_ = stop()
		wantAllowed(t, r, get("/"), 7)
	})
}

func TestWatchRefusesWhatCannotBe(t *testing.T) {
	r := inMemory(t, "rules: []")
	if err := r.Watch(t.Context(), "a", 0, func(error) {}); !errors.Is(err, limit.ErrInvalidArgument) {
		t.Error(err)
	}
	if err := r.Watch(t.Context(), "a", every, nil); !errors.Is(err, limit.ErrInvalidArgument) {
		t.Error(err)
	}
}
