package rls

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/yamlfile"
)

// A Source is the location of the configuration files: a file, or a directory with all .yaml and .yml
// files in and below it. Names that begin with a dot are skipped, and with them the links by which
// Kubernetes swaps the files of a ConfigMap; links that lead through those are followed. A link to a file
// that does not exist counts as a removed file.
type Source string

// largest is the most bytes of a file, and mostBytes of all files. Reading a file takes up to 120 times its
// size in memory, and its limits 35 times; a bad configuration must not kill the service.
const largest, mostBytes = 1 << 20, 2 << 20

// Read returns the files in the order of their names.
func (s Source) Read() ([]File, error) {
	if _, err := os.Stat(string(s)); err != nil {
		return nil, err // with the name, also of a loop of links
	}
	root, err := filepath.EvalSymlinks(string(s))
	if err != nil {
		return nil, err
	}
	var files []File
	var total int64
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		case path != root && !slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(path)):
			return nil
		}
		size, err := sizeOf(path)
		if size < 0 || err != nil {
			return err
		}
		if total += size; total > mostBytes {
			return fmt.Errorf("the files of %s have more than %d bytes", s, mostBytes)
		}
		data, err := os.ReadFile(path)
		name := string(s) + strings.TrimPrefix(path, root)
		files = append(files, File{Name: name, Data: data})
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s has no .yaml files", s)
	}
	return files, err
}

// sizeOf returns how many bytes a file has, -1 for a directory and for a link that leads nowhere.
func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return -1, nil
	case err != nil:
		return 0, err
	case info.IsDir():
		return -1, nil
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is %v, must be a file", path, info.Mode())
	case info.Size() > largest:
		return 0, fmt.Errorf("%s has %d bytes, must have at most %d", path, info.Size(), largest)
	}
	return info.Size(), nil
}

// Watch polls the source, loads it when it has changed, and calls notify with the result of each change.
// It returns when ctx ends. A change counts once two readings agree, so a partly written file does not.
func (s *Service) Watch(ctx context.Context, source Source, every time.Duration, notify func(error)) {
	var files []File
	yamlfile.Watch(ctx, every, func() (content string, err error) {
		files, err = source.Read()
		return sum(files), err
	}, s.tried, func(err error) {
		if err != nil {
			s.meters.badLoads.Inc()
		} else {
			err = s.Load(files)
		}
		notify(err)
	})
}

// tried returns the sum of the files of the last Load.
func (s *Service) tried() string {
	s.loading.Lock()
	defer s.loading.Unlock()
	return s.sum
}

// sum returns a hash of files and their names.
func sum(files []File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d %s %d ", len(f.Name), f.Name, len(f.Data))
		_, _ = h.Write(f.Data)
	}
	return string(h.Sum(nil))
}
