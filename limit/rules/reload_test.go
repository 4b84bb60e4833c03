package rules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
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

// Watch applies a change that it has read twice the same, once, and notes what it cannot apply. The folder is
// a link, as that of a ConfigMap. Each step takes a permit, of what its rules have left.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		link := filepath.Join(dir, "data")
		name := filepath.Join(link, "rules.yaml")
		text := func(rate string) string { return limited("rate: " + rate + "/1h") }
		write := func(rate string) func() error {
			return func() error { return os.WriteFile(name, []byte(text(rate)), 0o600) }
		}
		another := func(folder string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, folder), 0o700), os.Symlink(folder, link+"2"),
				os.Rename(link+"2", link))
		}
		redistest.NoError(t, errors.Join(another("5"), write("5")()))
		r := inMemory(t, text("5"))
		ctx, cancel := context.WithCancel(t.Context())
		noted, ended := make(chan error, 10), make(chan error)
		go func() {
			ended <- r.Watch(ctx, name, every, func(err error) { noted <- err })
		}()
		for _, step := range []struct {
			what  string
			do    func() error
			looks time.Duration
			note  string
			left  int64
		}{
			{"the file of the Set", write("5"), 3, "", 4},
			{"a file that may be half written", write("7"), 1, "", 3},
			{"a file that was the same twice", write("7"), 1, "<nil>", 6},
			{"a mistake", write("-1"), 5, name + ": line 4: rate is -1, must be 1 to 2^40", 5},
			{"no file", func() error { return os.Remove(name) }, 5, "no such file", 4},
			{"a pipe: to open it waits for a writer", exec.Command("mkfifo", "-m", "600", name).Run, 5,
				"invalid argument: " + name + " is prw-------, must be a file", 3},
			{"the file that is applied",
				func() error { return errors.Join(os.Remove(name), write("7")()) }, 5, "", 2},
			{"another link", func() error { return errors.Join(another("9"), write("9")()) }, 2, "<nil>", 8},
		} {
			redistest.NoError(t, step.do())
			time.Sleep(step.looks * every)
			synctest.Wait()
			notes := ""
			for len(noted) > 0 {
				notes += fmt.Sprintln(<-noted)
			}
			g := allow(t, r, get("/"), 1)
			if (notes == "") != (step.note == "") || strings.Count(notes, "\n") > 1 ||
				!strings.Contains(notes, step.note) || g.Remaining != step.left {
				t.Errorf("%s: notified of %q with %d left, want %q and %d", step.what, notes, g.Remaining,
					step.note, step.left)
			}
		}
		cancel()
		formtest.Fails(t, context.Canceled, <-ended)
	})
}
