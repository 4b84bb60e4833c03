package redisx

import (
	"crypto/sha1"
	"encoding/hex"
	"testing"
	"testing/fstest"
)

// A script is its file with all that it includes, without comments, each line in its place.
func TestLoad(t *testing.T) {
	files := fstest.MapFS{
		"a.lua": {Data: []byte("-- A comment.\nlocal a = 1\n" +
			"  -- include parts/b.lua\nreturn a + b + c\n")},
		"parts/b.lua": {Data: []byte("local b = 2\n-- include parts/c.lua\n")},
		"parts/c.lua": {Data: []byte("local c = 3 -- three\n")},
	}
	const want = "\nlocal a = 1\nlocal b = 2\nlocal c = 3\nreturn a + b + c\n"
	sc := Load(files, "a.lua", true)
	if sc.Source != want || !sc.repeatable {
		t.Errorf("%q, repeatable %v; want %q", sc.Source, sc.repeatable, want)
	}
	if sum := sha1.Sum([]byte(want)); sc.hash != hex.EncodeToString(sum[:]) {
		t.Errorf("the hash is %v", sc.hash)
	}
	defer func() {
		if recover() == nil {
			t.Error("a file that is missing went unnoticed")
		}
	}()
	Load(files, "parts/d.lua", true)
}
