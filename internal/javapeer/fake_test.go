package javapeer_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Scripts in place of java and mvn do what the real ones seldom do.
const (
	answersVersion = "#!/bin/sh\nread line; echo '{\"id\":1,\"result\":\"1.2.3\"}'\n"
	untilClosed    = "exec cat >/dev/null\n"

	// builds writes its arguments to a file and makes the jar, which takes a
	// while.
	builds = "#!/bin/sh\n" + `echo "$@" >>built
for arg; do case $arg in -DbuildDirectory=*) dir=${arg#*=};; esac; done
mkdir -p "$dir" && touch "$dir/peer.jar" && sleep 0.1 && touch "$dir/lib"
`
	// startsBuilt is a java that refuses a jar without its libraries.
	startsBuilt = "#!/bin/sh\n" + `[ -e "$(dirname "$2")/lib" ] || { echo "no lib" >&2; exit 1; }
read line; echo '{"id":1,"result":"1.2.3"}'; exec cat >/dev/null
`
)

// fake makes an empty project, and puts programs into PATH in front of all
// others. It changes to a directory in the project and returns that of the pom.
func fake(t *testing.T, programs map[string]string) string {
	t.Helper()
	root := t.TempDir()
	project := filepath.Join(root, "compat_test", "java")
	write(t, filepath.Join(project, "pom.xml"), "")
	write(t, filepath.Join(project, "src", "Peer.java"), "")
	write(t, filepath.Join(root, "below", "file"), "")
	for name, script := range programs {
		write(t, filepath.Join(root, "bin", name), script)
	}
	t.Setenv("PATH", filepath.Join(root, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Chdir(filepath.Join(root, "below"))
	return project
}

func write(t *testing.T, path, text string) {
	t.Helper()
	redistest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	redistest.NoError(t, os.WriteFile(path, []byte(text), 0o777))
}

// start starts a fake peer.
func start(t *testing.T, version string) *javapeer.Peer {
	t.Helper()
	p := redistest.Must(javapeer.Start(soon(t), version))(t)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// built returns the arguments of mvn, one line for each call.
func built(t *testing.T, project string) []string {
	t.Helper()
	text := redistest.Must(os.ReadFile(filepath.Join(project, "built")))(t)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// age makes a file, or all files in a directory, an hour older.
func age(t *testing.T, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
		then := time.Now().Add(-time.Hour)
		return errors.Join(err, os.Chtimes(path, then, then))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBuildWhenStale(t *testing.T) {
	project := fake(t, map[string]string{"mvn": builds, "java": startsBuilt})
	source := filepath.Join(project, "src", "Peer.java")
	start(t, "")
	start(t, "")
	if got := built(t, project); len(got) != 1 || strings.Contains(got[0], "redisson.version") {
		t.Errorf("at first built with %q", got)
	}
	age(t, project)
	start(t, "")
	if got := built(t, project); len(got) != 1 {
		t.Errorf("when nothing has changed built with %q", got)
	}
	write(t, source, "changed")
	start(t, "")
	if got := built(t, project); len(got) != 2 {
		t.Errorf("when a source has changed built with %q", got)
	}
	age(t, project)
	redistest.NoError(t, os.Remove(source))
	start(t, "")
	if got := built(t, project); len(got) != 3 {
		t.Errorf("when a source was removed built with %q", got)
	}
}

// Another version has its own directory.
func TestBuildOtherVersion(t *testing.T) {
	project := fake(t, map[string]string{"mvn": builds, "java": startsBuilt})
	if got := start(t, "1.2.3").Version(); got != "1.2.3" {
		t.Errorf("version %q", got)
	}
	got := built(t, project)
	dir := filepath.Join(project, "target", "redisson-1.2.3")
	for _, arg := range []string{"-Dredisson.version=1.2.3", "-DbuildDirectory=" + dir} {
		if !strings.Contains(got[0], arg) {
			t.Errorf("built with %q, want %s in it", got[0], arg)
		}
	}
}

// The options stand where the JVM looks for them, in front of the jar.
func TestOptions(t *testing.T) {
	fake(t, map[string]string{"mvn": builds, "java": "#!/bin/sh\n" + `[ "$1 $2" = "-Xmx64m -jar" ] || exit 1
read line; echo '{"id":1,"result":"1.2.3"}'; exec cat >/dev/null
`})
	p := redistest.Must(javapeer.Start(soon(t), "", "-Xmx64m"))(t)
	ok(t, "Close", p.Close())
}

// If many start at once, one builds; the others wait until it has finished.
func TestBuildOnce(t *testing.T) {
	project := fake(t, map[string]string{"mvn": builds, "java": startsBuilt})
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			p, err := javapeer.Start(soon(t), "")
			if err != nil {
				t.Error(err)
				return
			}
			_ = p.Close()
		})
	}
	all.Wait()
	if got := built(t, project); len(got) != 1 {
		t.Errorf("built with %q", got)
	}
}

func TestBuildFails(t *testing.T) {
	project := fake(t, map[string]string{
		"mvn":  "#!/bin/sh\nmkdir -p target; touch target/peer.jar; echo COMPILATION ERROR; exit 1\n",
		"java": answersVersion,
	})
	_, err := javapeer.Start(soon(t), "")
	if err == nil || !strings.Contains(err.Error(), "COMPILATION ERROR") {
		t.Errorf("error %v, want what mvn said", err)
	}
	if _, err := os.Stat(filepath.Join(project, "target", "peer.jar")); err == nil {
		t.Error("half a build is left behind")
	}
}

func TestBuildEndsWithContext(t *testing.T) {
	fake(t, map[string]string{"mvn": "#!/bin/sh\nexec sleep 60\n", "java": answersVersion})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	waiting := make(chan error, 1)
	go func() { _, err := javapeer.Start(ctx, ""); waiting <- err }()
	_, err := javapeer.Start(ctx, "")
	for _, err := range []error{err, <-waiting} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	}
}

func TestNoJava(t *testing.T) {
	for missing, there := range map[string]string{"java": "mvn", "mvn": "java"} {
		fake(t, map[string]string{there: answersVersion})
		dir, _, _ := strings.Cut(os.Getenv("PATH"), string(os.PathListSeparator))
		t.Setenv("PATH", dir)
		_, err := javapeer.Start(soon(t), "")
		if !errors.Is(err, javapeer.ErrNoJava) || !strings.Contains(err.Error(), `"`+missing+`"`) {
			t.Errorf("without %s: %v", missing, err)
		}
	}
}

func TestNoProject(t *testing.T) {
	fake(t, map[string]string{"java": answersVersion})
	t.Chdir(t.TempDir())
	_, err := javapeer.Start(soon(t), "")
	if err == nil || !strings.Contains(err.Error(), "compat_test/java") {
		t.Errorf("error %v", err)
	}
}

func TestStartFails(t *testing.T) {
	fake(t, map[string]string{"mvn": builds, "java": "#!/bin/sh\necho no main manifest >&2; exit 1\n"})
	_, err := javapeer.Start(soon(t), "")
	if !errors.Is(err, javapeer.ErrEnded) || !strings.Contains(err.Error(), "no main manifest") {
		t.Errorf("error %v, want what java said", err)
	}
}

// When a peer dies, all calls end with the reason.
func TestDeadPeer(t *testing.T) {
	fake(t, map[string]string{
		"mvn":  builds,
		"java": answersVersion + "read line; read line; echo OutOfMemoryError >&2; exit 3\n",
	})
	p := start(t, "")
	calls := make(chan error)
	for range 2 {
		go func() { calls <- p.Limiter("a", "a").Acquire(soon(t), 1) }()
	}
	for range 2 {
		isDead(t, <-calls)
	}
	isDead(t, p.Limiter("a", "a").Acquire(soon(t), 1))
	isDead(t, p.Close())
}

// A peer that is killed does nothing more, not even what it does at the end of its stdin.
func TestKill(t *testing.T) {
	fake(t, map[string]string{
		"mvn": builds, "java": answersVersion + "cat >/dev/null; touch released\n",
	})
	p := start(t, "")
	p.Kill()
	p.Kill()
	if err := p.Close(); !errors.Is(err, javapeer.ErrEnded) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Close returned %v", err)
	}
	if _, err := os.Stat("released"); err == nil {
		t.Error("the peer has ended by itself")
	}
}

func isDead(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, javapeer.ErrEnded) || !strings.Contains(err.Error(), "OutOfMemoryError") ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("error %v", err)
	}
}

// The end of what a dead peer has printed is kept.
func TestLastWords(t *testing.T) {
	fake(t, map[string]string{
		"mvn":  builds,
		"java": "#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1\n",
	})
	_, err := javapeer.Start(soon(t), "")
	if err == nil || len(err.Error()) > 5000 || !strings.HasSuffix(err.Error(), "xthe end\n") {
		t.Errorf("error %.100v ...", err)
	}
}

// Each call gets its own answer, in whatever order they come.
func TestAnswersOutOfOrder(t *testing.T) {
	fake(t, map[string]string{
		"mvn": builds,
		"java": answersVersion + `read first; read second
for line in "$second" "$first"; do
  echo "$line" | sed 's/.*"id":\([0-9]*\).*"name":"\([a-z]*\)".*/{"id":\1,"result":"\2"}/'
done
` + untilClosed,
	})
	p := start(t, "")
	var both sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		both.Go(func() {
			if got, err := p.Limiter("c", name).Name(soon(t)); got != name || err != nil {
				t.Errorf("Name of %s: %q, %v", name, got, err)
			}
		})
	}
	both.Wait()
}

// A line that is no answer ends the peer: the call would wait for ever.
func TestNoAnswer(t *testing.T) {
	fake(t, map[string]string{
		"mvn":  builds,
		"java": answersVersion + "read line; echo Picked up JAVA_TOOL_OPTIONS; " + untilClosed,
	})
	err := start(t, "").Limiter("a", "a").Acquire(soon(t), 1)
	if !errors.Is(err, javapeer.ErrEnded) || !strings.Contains(err.Error(), "Picked up") {
		t.Errorf("error %v", err)
	}
}

// Lines may be long, and events without a reader do not delay answers.
func TestMuchOutput(t *testing.T) {
	const many = 2000
	fake(t, map[string]string{
		"mvn": builds,
		"java": answersVersion + `read line
i=0; while [ $i -lt 2000 ]; do echo '{"event":"expired","client":"a","name":"b"}'; i=$((i+1)); done
printf '{"id":2,"result":"'; head -c 1000000 /dev/zero | tr '\0' x; echo '"}'
` + untilClosed,
	})
	p := start(t, "")
	name, err := p.Limiter("a", "a").Name(soon(t))
	if len(name) != 1000000 || err != nil {
		t.Errorf("Name: %d bytes, %v", len(name), err)
	}
	ok(t, "Close", p.Close())
	kept := 0
	for range p.Events() {
		kept++
	}
	if kept == 0 || kept >= many {
		t.Errorf("%d events of %d were kept", kept, many)
	}
}
