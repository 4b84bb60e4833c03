package rls

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// write writes files of a directory, whose texts follow their names.
func write(t *testing.T, dir string, namesAndTexts ...string) {
	t.Helper()
	for i := 0; i < len(namesAndTexts); i += 2 {
		path := filepath.Join(dir, namesAndTexts[i])
		redistest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		redistest.NoError(t, os.WriteFile(path, []byte(namesAndTexts[i+1]), 0o600))
	}
}

const domainA, domainB = "domain: a\n", "domain: b\n"

// A directory is read with the files below it, as Kubernetes mounts it: links into a hidden directory.
func TestASourceReadsFilesAndLinks(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "..v1/b.yaml", domainB, "a.yml", domainA, "deep/c.yaml", "domain: c\n", "notes.txt", "x",
		".d.yaml", "x")
	for link, to := range map[string]string{
		"..data": "..v1", "b.yaml": "..data/b.yaml", "removed.yaml": "..data/removed.yaml",
	} {
		redistest.NoError(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	files := redistest.Must(Source(dir).Read())(t)
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimPrefix(f.Name, dir+"/"))
	}
	if got := strings.Join(names, " "); got != "a.yml b.yaml deep/c.yaml" {
		t.Errorf("read %s", got)
	}
	if files, err := Source(filepath.Join(dir, "a.yml")).Read(); err != nil || len(files) != 1 {
		t.Errorf("a file: %v, %v", files, err)
	}
	loop := t.TempDir()
	redistest.NoError(t, os.Symlink("loop.yaml", filepath.Join(loop, "loop.yaml")))
	for _, bad := range []string{filepath.Join(dir, "missing"), t.TempDir(), os.DevNull, loop} {
		if files, err := Source(bad).Read(); err == nil {
			t.Errorf("%s: %v", bad, files)
		}
	}
}

// Files that are too large to be a configuration, one alone or all together, are not read into memory.
func TestHugeFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []struct {
		name string
		size int64
		want string
	}{
		{"1.yaml", largest, "<nil>"},
		{"2.yaml", mostBytes - largest, "<nil>"},
		{"3.yaml", int64(len(domainA)), "the files of " + dir + " have more than 2097152 bytes"},
		{"0.yaml", largest + 1, dir + "/0.yaml has 1048577 bytes, must have at most 1048576"},
	} {
		write(t, dir, f.name, domainA)
		redistest.NoError(t, os.Truncate(filepath.Join(dir, f.name), f.size))
		if _, err := Source(dir).Read(); fmt.Sprint(err) != f.want {
			t.Errorf("%s: got %v, want %s", f.name, err, f.want)
		}
	}
}

// A change is loaded once, a bad one is reported once and keeps the old configuration, and a missing file
// as well.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "a.yaml", domainA)
		s := inMemory(t, Options{}, domainA)
		files, err := Source(dir).Read()
		if err != nil || s.Load(files) != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		notes := make(chan string, 10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Watch(ctx, Source(dir), time.Second, func(err error) {
				text := "loaded"
				if err != nil {
					text = strings.ReplaceAll(err.Error(), dir+"/", "")
				}
				notes <- text
			})
		}()
		after := func(wait time.Duration, domains int, want ...string) {
			t.Helper()
			time.Sleep(wait)
			synctest.Wait()
			var got []string
			for len(notes) > 0 {
				got = append(got, <-notes)
			}
			if !slices.Equal(got, want) || s.Config().Domains() != domains {
				t.Errorf("%d domains, notes %q; want %d, %q", s.Config().Domains(), got, domains, want)
			}
		}
		after(5*time.Second, 1)
		write(t, dir, "b.yaml", domainB)
		after(1500*time.Millisecond, 1)
		after(time.Second, 2, "loaded")
		write(t, dir, "b.yaml", "domain: b\nx: 1\n")
		after(5*time.Second, 2,
			`b.yaml:2: the file has no field "x"; it has all_or_none, descriptors, domain and fallback`)
		write(t, dir, "b.yaml", domainB)
		after(5*time.Second, 2, "loaded")
		redistest.NoError(t, os.Rename(dir, dir+"-away"))
		after(5*time.Second, 2, "stat "+dir+": no such file or directory")
		redistest.NoError(t, os.Rename(dir+"-away", dir))
		redistest.NoError(t, os.Remove(filepath.Join(dir, "b.yaml")))
		after(5*time.Second, 1, "loaded")
		cancel()
		<-done
	})
}

// A reload keeps what is counted, and takes the new numbers at once. Counting begins anew with another
// all_or_none, and where days become those of the calendar.
func TestAReloadKeepsTheCounts(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	s := serve(t, rdb, Options{}, hourly(2, ""))
	for _, step := range []struct{ text, ask, want string }{
		{hourly(2, ""), "a=x", "OK: OK 1"}, {hourly(5, ""), "a=x", "OK: OK 3"},
		{"domain: [", "a=x", "OK: OK 2"}, {"fallback: deny\n" + hourly(5, ""), "a=x", "OK: OK 1"},
		{"all_or_none: true\n" + hourly(5, ""), "a=x", "OK: OK 4"},
		{limited("unit: day, requests_per_unit: 2, algorithm: fixed_window"), "a=y", "OK: OK 1"},
	} {
		err := s.Load([]File{{Name: "new.yaml", Data: []byte(step.text)}})
		if bad := strings.HasSuffix(step.text, "["); bad != (err != nil) {
			t.Errorf("%s: %v", step.text, err)
		}
		asks(t, s, step.ask, step.want)
	}
	days := serve(t, rdb, Options{Calendar: time.UTC},
		limited("unit: day, requests_per_unit: 2, algorithm: fixed_window"))
	asks(t, days, "a=y", "OK: OK 1")
}
