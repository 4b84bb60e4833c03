package scripts_test

import (
	"os"
	"path/filepath"
	"testing"
)

// The scripts keep the rules of the checker.
func TestLua(t *testing.T) {
	c := checkLua(os.DirFS("."))
	for _, text := range c.errors() {
		t.Error("scripts/" + text)
	}
	// An empty folder has no faults.
	if c.files < 20 || c.calls < 50 {
		t.Errorf("%d files and %d calls of Redis were found", c.files, c.calls)
	}
}

// The scripts of the other algorithms and of the locks keep the same rules.
func TestLuaOfAlgorithms(t *testing.T) {
	scripts, err := filepath.Glob("../limit/*/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]bool{"../rlock/scripts": true}
	for _, script := range scripts {
		folders[filepath.Dir(script)] = true
	}
	if len(folders) < 2 {
		t.Errorf("scripts were found in %d folders", len(folders))
	}
	for folder := range folders {
		c := checkLua(os.DirFS(folder))
		for _, text := range c.errors() {
			t.Errorf("%s/%s", folder, text)
		}
		if c.calls == 0 {
			t.Errorf("%s: no calls of Redis were found", folder)
		}
	}
}
