package scripts_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
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

// luaRight keeps every rule. It is op.lua, whose line 3 is the first one after its header.
const luaRight = `local redis, KEYS = redis, KEYS
-- include parts/p.lua
local n, left = tonumber(ARGV[12]), 0
local LONGEST = 50
if not n then
  return redis.error_reply('BADARG')
end
local old = redis.call('ZRANGE', KEYS[2], 0, LONGEST - 1)
for i = 1, math.min(#old, LONGEST), 2 do
  left = left - count(old[i])
end
for _, member in ipairs(old) do
  left = left + #string.gsub(member, '.', function(byte) return string.upper(byte) end)
end
for i = #old, 1, -1 do
  left = left + i
end
local l = { hash = hash }
l.hash('HGET', 'a')
redis.pcall('PUBLISH', ARGV[#ARGV], left)
return redis.call('UNLINK', KEYS[2], KEYS[3])
`

// luaPart is parts/p.lua of the fixtures.
const luaPart = `-- p.lua: what others include.
local function hash(command, ...)
  if command == 'HGET' then
    return redis.call('HGET', KEYS[1], ...)
  end
end
local function count(member)
  return string.byte(member) * 256
end
`

// luaFixture checks op.lua with a text after its header, and the part that it includes.
func luaFixture(text string) []string {
	return checkLua(fstest.MapFS{
		"op.lua":      &fstest.MapFile{Data: []byte("-- op.lua: a fixture.\n-- Reply: x\n" + text)},
		"parts/p.lua": &fstest.MapFile{Data: []byte(luaPart)},
	}).errors()
}

func TestRightLuaHasNoErrors(t *testing.T) {
	if got := luaFixture(luaRight); len(got) > 0 {
		t.Error(strings.Join(got, "\n"))
	}
}

// Every rule finds what breaks it, in its line.
func TestEveryRuleFindsWhatBreaksIt(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"while true do\nend", "op.lua:5: while has no bound"},
		{"repeat\nuntil true", "op.lua:5: repeat has no bound"},
		{"for i = 1, tonumber('9') do\nend",
			"op.lua:5: a limit is made of numbers, names, #, math.min and math.max"},
		{"for i = 1, math.huge do\nend",
			"op.lua:5: a limit is made of numbers, names, #, math.min and math.max"},
		{"local s = 0\nfor i = 1, 2, s do\nend",
			"op.lua:6: the step may be 0: write a number, a constant or math.max(1, ...)"},
		{"for k in next, {} do\nend",
			"op.lua:5: a generic for runs over ipairs(...), pairs(...) or string.gmatch(...)"},
		{"local function f(n)\n  return f(n)\nend", "op.lua:6: f calls itself"},
		{"function f()\nend", "op.lua:5: a function is declared as local function"},
		{"redis.call(ARGV[1], KEYS[1])", "op.lua:5: the command is not written out"},
		{"redis.call('GET', ARGV[1])", "op.lua:5: a key of GET is not written as KEYS[number]"},
		{"local i = 1\nredis.pcall('get', KEYS[i])", "op.lua:6: a key of GET is not written as KEYS[number]"},
		{"redis.call('UNLINK', KEYS[1], 'b')", "op.lua:5: a key of UNLINK is not written as KEYS[number]"},
		{"redis.call('GET')", "op.lua:5: a key of GET is not written as KEYS[number]"},
		{"local l = { hash = hash }\nl.hash('HSET', 1)",
			`op.lua:6: hash does not know the command "HSET" (parts/keys.lua)`},
		{"local l = { hash = hash }\nl.hash(ARGV[1])",
			`op.lua:6: hash does not know the command "" (parts/keys.lua)`},
		{"local y = x", "op.lua:5: nothing defines x"},
		{"do\n  local x = 1\nend\nlocal y = x", "op.lua:8: nothing defines x"},
		{"local x = cjson.encode({})", "op.lua:5: nothing defines cjson"},
		{"x = 1", "op.lua:5: x is assigned to and not local"},
		{"ARGV[1] = 2", "op.lua:5: the global ARGV is changed"},
		{"local type = 1", "op.lua:5: local type takes the name of a global"},
		{"local count = 1", "op.lua:5: local count takes the name of the one of parts/p.lua"},
		{"local MOST = 1\nMOST = 2", "op.lua:6: the constant MOST is assigned to"},
		{"local x = 1 + 60", "op.lua:5: 60 has no name: local NAME = 60"},
		{"local x, y = 1, 2\nx = y and not y and y",
			"op.lua:6: miniredis does not assign false behind not: declare the local here"},
		{"local = 1", "op.lua:5: op.lua line:5(column:7) near '=':   syntax error"},
		{"-- include parts/q.lua", "op.lua:5: parts/q.lua is missing, or includes itself"},
	} {
		got := luaFixture("-- include parts/p.lua\n\n" + test.text + "\nreturn 1\n")
		// The lines of the part stand before it in the parser's text, but not in the file.
		want := strings.ReplaceAll(test.want, "op.lua line:5", "op.lua line:14")
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s\ngot  %s\nwant %s", test.text, strings.Join(got, "\n     "), want)
		}
	}
}

func TestLuaFilesHaveTheirHeaders(t *testing.T) {
	got := checkLua(fstest.MapFS{
		"op.lua":      &fstest.MapFile{Data: []byte("-- other.lua: a fixture.\nlocal x = 1\n")},
		"parts/p.lua": &fstest.MapFile{Data: []byte(luaPart)},
	}).errors()
	want := []string{
		"op.lua:1: the first line begins with `-- op.lua: `", "op.lua:1: the header has no `-- Reply: `",
		"op.lua:2: the last statement is no return", "parts/p.lua:1: no operation includes it"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
