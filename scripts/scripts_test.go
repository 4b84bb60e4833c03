package scripts_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The headers of the scripts are true, and the scripts keep the rules of the checker.
func TestLua(t *testing.T) {
	c := checkLua(os.DirFS("."))
	for _, text := range c.errors() {
		t.Error("scripts/" + text)
	}
	// An empty folder has no faults.
	if len(c.files) < 20 || c.calls < 50 {
		t.Errorf("%d files and %d calls of Redis were found", len(c.files), c.calls)
	}
	// LUA_HEADERS=1 shows what the header of each part should say.
	for _, f := range c.sorted() {
		if f.isPart() && os.Getenv("LUA_HEADERS") != "" {
			// t.Log would indent it.
			fmt.Printf("scripts/%s\n%s\n\n", f.name, strings.Join(c.expand(f).headerLines(), "\n"))
		}
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

// A set of scripts that keeps every rule.
var luaRight = map[string]string{
	"take.lua": `-- take.lua: takes permits.
--
-- ARGV[1]  the permits
-- Reply: what is left

-- include parts/common.lua
local n, left = tonumber(ARGV[1]), 0
if not n then
  return redis.error_reply('BADARG')
end
-- include parts/read.lua
do
  local old = redis.call('ZRANGE', KEYS[2], 0, PART - 1)
  for i = 1, math.min(#old, PART), 2 do
    left = left - count(old[i])
  end
  for _, member in ipairs(old) do
    left = left + #string.gsub(member, '.', function(byte) return string.upper(byte) end)
  end
end
-- include parts/write.lua
`,
	"expire.lua": `-- expire.lua: sets the time to live.
-- Reply: 1
redis.call(ARGV[2], KEYS[1], ARGV[3])
redis.pcall('PUBLISH', ARGV[#ARGV], 'changed')
return redis.call('UNLINK', KEYS[2], KEYS[3])
`,
	"parts/common.lua": `-- common.lua: what all use.
-- in: none
-- out: PART (records, of course, read at once), count the permits of a record
-- changes: none
-- ends the script: no
-- writes: no
local redis, KEYS, ARGV = redis, KEYS, ARGV
local PART = 50 * 2
local function count(member)
  if member == '' then
    return 0
  end
  return string.byte(member) * 256
end
`,
	"parts/read.lua": `-- read.lua: reads the limiter.
-- in: n the permits,
--     left
-- out: value
-- changes: left what was there
-- ends the script: no
-- writes: no; it reads
local value = tonumber(redis.call('GET', KEYS[1])) or 0
if value >= n then
  -- include parts/less.lua
end
`,
	"parts/less.lua": `-- less.lua: included in a block.
-- in: value, left, n
-- out: none
-- changes: left
-- ends the script: no
-- writes: no
do
  local rest = value - n
  left = rest
end
`,
	"parts/write.lua": `-- write.lua: writes and ends.
-- in: left
-- out: none
-- changes: none
-- ends the script: yes
-- writes: yes
redis.call('SET', KEYS[1], left)
return left
`,
}

func TestLuaRight(t *testing.T) {
	for _, text := range luaFixture(nil).errors() {
		t.Error(text)
	}
}

// luaFixture checks the right scripts with some of them replaced.
func luaFixture(files map[string]string) *luaChecker {
	fsys := fstest.MapFS{}
	all := maps.Clone(luaRight)
	maps.Copy(all, files)
	for name, text := range all {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return checkLua(fsys)
}

// operation returns op.lua; its text begins at line 3.
func operation(text string) map[string]string {
	return map[string]string{"op.lua": "-- op.lua: a fixture.\n-- Reply: x\n" + text}
}

// header returns the header of a part with its five fields, in the order of
// luaFields. The text behind it begins at line 7.
func header(name, fields string) string {
	text := "-- " + name + ".lua: a fixture.\n"
	for i, value := range strings.Split(fields, "; ") {
		text += "-- " + luaFields[i] + ": " + value + "\n"
	}
	return text
}

// part returns parts/p.lua, and op.lua, which defines a and includes it in line 4.
func part(fields, text string) map[string]string {
	return with(operation("local a = 1\n-- include parts/p.lua\nreturn a\n"),
		"parts/p.lua", header("p", fields)+text)
}

// with returns files with one more.
func with(files map[string]string, name, text string) map[string]string {
	files[name] = text
	return files
}

// Every rule finds what breaks it, in its line, and nothing else.
func TestLuaWrong(t *testing.T) {
	for _, test := range slices.Concat(luaWrongTops, luaWrongNames, luaWrongLocals, luaWrongIncludes,
		luaWrongCalls) {
		t.Run(test.name, func(t *testing.T) {
			if got := luaFixture(test.files).errors(); !slices.Equal(got, test.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}

func TestLuaFolderIsMissing(t *testing.T) {
	if len(checkLua(os.DirFS("nowhere")).errors()) == 0 {
		t.Error("no error")
	}
}

// What TestLuaHeaders shows is what the checker wants.
func TestLuaHeadersAreRight(t *testing.T) {
	c := luaFixture(nil)
	got := strings.Join(c.expand(c.files["parts/read.lua"]).headerLines(), "\n")
	want := "-- in:       n, left\n-- out:      value\n-- changes:  left\n" +
		"-- ends the script: no\n-- writes: no"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
