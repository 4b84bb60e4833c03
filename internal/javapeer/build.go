package javapeer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// project is the directory of the peer's Maven project in the module.
const project = "compat_test/java"

// findProject looks for the project in the working directory and those above
// it: tests run in the directory of their package, programs in the root.
func findProject() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		found := filepath.Join(dir, filepath.FromSlash(project))
		if _, err := os.Stat(filepath.Join(found, "pom.xml")); err == nil {
			return found, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("javapeer: no %s in %s nor above it", project, start)
		}
	}
}

// A build makes the peer of one Redisson version.
type build struct {
	project string
	dir     string // where mvn puts everything
	version string // empty for that of the pom
}

func newBuild(version string) (build, error) {
	project, err := findProject()
	b := build{project, filepath.Join(project, "target"), version}
	if version != "" {
		b.dir = filepath.Join(b.dir, "redisson-"+version)
	}
	return b, err
}

func (b build) jar() string { return filepath.Join(b.dir, "peer.jar") }

// Build builds the peer with a version of Redisson, unless its jar exists and is newer than its sources, and
// returns the path of the jar. Processes that build at the same time do so once. Start calls it.
func Build(ctx context.Context, version string) (jar string, err error) {
	b, err := newBuild(version)
	if err != nil {
		return "", err
	}
	// It looks while it holds the lock, because a build makes the jar before the libraries.
	lock, err := lockDir(ctx, b.project)
	if err != nil {
		return "", fmt.Errorf("javapeer: waiting for another build: %w", err)
	}
	defer lock.Close()
	stale, err := b.stale()
	if err == nil && stale {
		err = b.run(ctx, lock)
	}
	return b.jar(), err
}

// stale reports whether the jar is missing or older than what it is made of.
func (b build) stale() (bool, error) {
	jar, err := os.Stat(b.jar())
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, source := range []string{"pom.xml", "src"} {
		newest, err := newestIn(filepath.Join(b.project, source))
		if err != nil || newest.After(jar.ModTime()) {
			return true, err
		}
	}
	return false, nil
}

// newestIn returns when the file root, or any file below it, was last changed.
// Directories count, because removing a file changes only its directory.
func newestIn(root string) (newest time.Time, err error) {
	err = filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return err
	})
	return newest, err
}

// run runs mvn, which holds the lock as well. If this process is killed, the
// next one waits for the mvn that it has left behind.
func (b build) run(ctx context.Context, lock *os.File) error {
	mvn, err := find("mvn")
	if err != nil {
		return err
	}
	args := []string{"-q", "-B", "-Dstyle.color=never", "package", "-DbuildDirectory=" + b.dir}
	if b.version != "" {
		args = append(args, "-Dredisson.version="+b.version)
	}
	cmd := exec.CommandContext(ctx, mvn, args...)
	// A build is short: with more optimization it takes twice the time. Later options
	// override earlier ones.
	cmd.Env = append(os.Environ(),
		"MAVEN_OPTS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "+os.Getenv("MAVEN_OPTS"))
	cmd.Dir = b.project
	cmd.WaitDelay = time.Second
	if lock != nil {
		cmd.ExtraFiles = []*os.File{lock}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		_ = os.Remove(b.jar()) // it may exist without its libraries
		err = errors.Join(ctx.Err(), err)
		return fmt.Errorf("javapeer: building the peer: %w, mvn saying:\n%s", err, out)
	}
	return nil
}

// find returns the path of a program.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("javapeer: the Java peer needs a JDK and Maven: %w", err)
	}
	return path, nil
}
