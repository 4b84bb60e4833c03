package scripts_test

// A luaCase is a set of scripts that breaks a rule.
type luaCase struct {
	name  string
	files map[string]string
	want  []string
}

const luaIncludesQ = "-- include parts/q.lua\n"

// luaWrongTops are scripts that break the rules of the top of a file.
var luaWrongTops = []luaCase{
	{"top: no name", map[string]string{"op.lua": "-- Reply: x\nreturn 1\n"},
		[]string{"op.lua:1: the first line begins with `-- op.lua: `"}},
	{"top: no reply", map[string]string{"op.lua": "-- op.lua: x\nreturn 1\n"},
		[]string{"op.lua:1: the header has no `-- Reply: `"}},
	{"top: another folder", map[string]string{"more/op.lua": "-- op.lua: x\n-- Reply: x\nreturn 1\n"},
		[]string{"more/op.lua:1: neither an operation (*.lua) nor a part (parts/*.lua)"}},
	{"top: no Lua", operation("local = 1\n"),
		[]string{"op.lua:3: op.lua line:3(column:7) near '=':   syntax error",
			"op.lua:3: the last statement is no return"}},

	{"header: a field is missing", with(part("a; none; none; no; no", ""), "parts/p.lua",
		"-- p.lua: x\n-- in: a\n-- out: none\n-- ends the script: no\n-- writes: no\nassert(a)\n"),
		[]string{"parts/p.lua:1: the header has no `changes:`"}},
	{"header: a field stands twice", part("a\n-- in: a; none; none; no; no", "assert(a)\n"),
		[]string{"parts/p.lua:3: a second `in:`"}},
	{"header: no list", part("a, 2, a, math; none; none; no; no", "assert(a)\n"), []string{
		"parts/p.lua:2: `in:` \"2\" is no name", "parts/p.lua:2: `in:` a twice",
		"parts/p.lua:2: `in:` math is a global"}},
	{"header: neither yes nor no", part("a; none; none; perhaps; no", "assert(a)\n"),
		[]string{"parts/p.lua:5: `ends the script:` is yes or no"}},
}

// luaWrongNames are scripts that use names that are not there, and whose headers do not say what they do.
var luaWrongNames = []luaCase{
	{"1: a name that nothing defines", operation("if x then\n  return y.x\nend\nreturn { z = x }\n"),
		[]string{"op.lua:3: nothing defines x", "op.lua:4: nothing defines y"}},
	{"1: a local of a block is used behind it", operation("do\n  local x = 1\nend\nreturn x\n"),
		[]string{"op.lua:6: nothing defines x"}},
	{"1: a local is used by its own value", operation("local x = x\nreturn x\n"),
		[]string{"op.lua:3: nothing defines x"}},
	{"1: a library that not every server has", operation("return cjson.encode({})\n"),
		[]string{"op.lua:3: nothing defines cjson"}},
	{"1: a global is made", operation("x = 1\nreturn x\n"),
		[]string{"op.lua:3: x is assigned to and not local"}},
	{"1: a global function", operation("function x() end\nreturn 1\n"),
		[]string{"op.lua:3: a function is declared as local function"}},
	{"1: a global is assigned to", operation("ARGV = {}\nARGV[1] = 2\nreturn 1\n"),
		[]string{"op.lua:3: the global ARGV is assigned to", "op.lua:4: the global ARGV is changed"}},
	{"1: a part uses what in: lacks", part("none; none; none; no; no", "\nassert(a)\n"),
		[]string{"parts/p.lua:8: uses a, which `in:` lacks"}},
	{"1: what a part wants is not there",
		with(part("a, b; none; none; no; no", "assert(a)\nassert(b)\n"),
			"other.lua", "-- other.lua: x\n-- Reply: x\nlocal b = 1\n-- include parts/p.lua\nreturn b\n"),
		[]string{"parts/p.lua:7: nothing defines a in other.lua",
			"parts/p.lua:8: nothing defines b in op.lua"}},
	{"1: a part includes one that uses more", with(part("none; none; none; no; no", luaIncludesQ),
		"parts/q.lua", header("q", "a; none; none; no; no")+"assert(a)\n"),
		[]string{"parts/p.lua:7: uses a, which `in:` lacks (parts/q.lua:7)"}},

	{"2: out: is no local", part("a; b, c; none; no; no",
		"do\n  local b = a\n  assert(b)\nend\n"),
		[]string{"parts/p.lua:3: `out:` b is no local at the top level",
			"parts/p.lua:3: `out:` c is no local at the top level"}},
	{"2: out: lacks a local", part("a; none; none; no; no",
		"local b, c = a\nlocal function d() end\n"),
		[]string{"parts/p.lua:7: local b is not in `out:`, nor in a do ... end",
			"parts/p.lua:7: local c is not in `out:`, nor in a do ... end",
			"parts/p.lua:8: local d is not in `out:`, nor in a do ... end"}},
	{"2: out: lacks a local of what it includes",
		with(part("none; none; none; no; no", luaIncludesQ),
			"parts/q.lua", header("q", "none; b; none; no; no")+"local b = 1\n"),
		[]string{"parts/p.lua:7: local b is not in `out:`, nor in a do ... end (parts/q.lua:7)"}},

	{"3: changes: lacks a name", part("a; none; none; no; no", "if a then\n  a = 2\nend\n"),
		[]string{"parts/p.lua:8: assigns to a, which `changes:` lacks"}},
	{"3: changes: has more", part("a; none; a, b; no; no", "assert(a)\n"),
		[]string{"parts/p.lua:4: `changes:` a is not assigned to",
			"parts/p.lua:4: `changes:` b is not assigned to"}},
	{"3: changes: is not in in:", part("none; none; a; no; no", "a = 1\n"),
		[]string{"parts/p.lua:7: uses a, which `in:` lacks"}},
	{"3: in: has more", part("a, b; none; none; no; no", "assert(a)\n"),
		[]string{"parts/p.lua:2: `in:` b is not used"}},
	{"3: in: has what the part defines",
		part("a; none; none; no; no", "do\n  local a = 1\n  assert(a)\nend\n"),
		[]string{"parts/p.lua:2: `in:` a is not used",
			"parts/p.lua:8: local a takes the name of the one of op.lua:3 in op.lua"}},
}

// luaWrongLocals are scripts that hide names, or whose loops have no bound.
var luaWrongLocals = []luaCase{
	{"4: a local hides one",
		operation("local x = 1\nif x then\n  local x = 2\n  return x\nend\nreturn x\n"),
		[]string{"op.lua:5: local x takes the name of the one of op.lua:3"}},
	{"4: a local stands twice", operation("local x, y, x = 1, 2, 3\nreturn x + y\n"),
		[]string{"op.lua:3: local x takes the name of the one of op.lua:3"}},
	{"4: a loop variable hides one", operation("local x = 1\nfor x = 1, x do assert(x) end\nreturn x\n"),
		[]string{"op.lua:4: local x takes the name of the one of op.lua:3"}},
	{"4: a parameter hides one",
		operation("local x = 1\nlocal function f(x) return x end\nreturn f(x)\n"),
		[]string{"op.lua:4: local x takes the name of the one of op.lua:3"}},
	{"4: a part hides one of the operation", part("none; a; none; no; no", "local a = 2\n"),
		[]string{"parts/p.lua:7: local a takes the name of the one of op.lua:3 in op.lua"}},
	{"4: a part hides one of two operations", with(part("none; a; none; no; no", "local a = 2\n"),
		"or.lua", "-- or.lua: x\n-- Reply: x\nlocal a = 1\n-- include parts/p.lua\nreturn a\n"),
		[]string{"parts/p.lua:7: local a takes the name of the one of op.lua:3 in op.lua",
			"parts/p.lua:7: local a takes the name of the one of or.lua:3 in or.lua"}},
	{"4: a part hides one of another part in two operations", map[string]string{
		"op.lua":      luaIncludesBoth("op"),
		"or.lua":      luaIncludesBoth("or"),
		"parts/p.lua": header("p", "none; a; none; no; no") + "local a = 1\n",
		"parts/q.lua": header("q", "none; a; none; no; no") + "local a = 1\n"},
		[]string{"parts/q.lua:7: local a takes the name of the one of parts/p.lua:7 in op.lua"}},
	{"4: an operation hides one of a part", with(part("none; b; none; no; no", "local b = 2\n"),
		"op.lua", "-- op.lua: x\n-- Reply: x\n-- include parts/p.lua\n"+
			"for _, b in ipairs({}) do assert(b) end\nreturn 1\n"),
		[]string{"op.lua:4: local b takes the name of the one of parts/p.lua:7"}},
	{"4: a local takes the name of a global", operation(
		"local x = 1\nlocal redis = redis\nlocal type = x\nreturn x\n"),
		[]string{"op.lua:4: redis is a value: its calls could not be seen",
			"op.lua:4: local redis takes the name of a global",
			"op.lua:5: local type takes the name of a global"}},

	{"5: while", operation("while true do end\nreturn 1\n"), []string{"op.lua:3: while has no bound"}},
	{"5: repeat", operation("local x\nrepeat\n  x = 1\nuntil x\nreturn 1\n"),
		[]string{"op.lua:4: repeat has no bound"}},
	{"5: goto", operation("::again::\ngoto again\nreturn 1\n"),
		[]string{"op.lua:3: Redis does not know labels",
			"op.lua:4: goto has no bound, and Redis does not know it"}},
	{"5: a limit that a function makes",
		operation("for _ = 1, redis.call('ZCARD', KEYS[1]) do end\nreturn 1\n"),
		[]string{"op.lua:3: a limit is made of numbers, names, #, math.min and math.max"}},
	{"5: a limit without end", operation("for _ = 1, math.huge do end\nreturn 1\n"),
		[]string{"op.lua:3: a limit is made of numbers, names, #, math.min and math.max"}},
	{"5: a step of 0", operation("for _ = 1, 0, #ARGV[1] do end\nfor _ = 1, 0, 0 do end\nreturn 1\n"),
		[]string{
			"op.lua:3: the step may be 0: write a number, a constant or math.max(1, ...)",
			"op.lua:4: the step may be 0: write a number, a constant or math.max(1, ...)"}},
	{"5: limits and steps that are fine", operation(
		"local n = { 1 }\nfor _ = -n[1], n[1] and #ARGV - 1 or -1, -2 do end\n" +
			"for _ = #n, math.max(1, #n), math.max(1, #n) do end\n" +
			"for _ in string.gmatch('a', '.') do end\nreturn 1\n"), nil},
	{"5: another iterator", operation("for _ in next, {} do end\nreturn 1\n"),
		[]string{"op.lua:3: a generic for runs over ipairs(...), pairs(...) or string.gmatch(...)"}},
	{"5: a loop that feeds itself",
		operation("local t = { 1 }\nfor _ in ipairs(t) do\n  t[#t + 1] = 1\n" +
			"  table.insert(t, 1)\nend\nreturn 1\n"),
		[]string{"op.lua:5: the loop changes t, which it runs over",
			"op.lua:6: the loop changes t, which it runs over"}},
	{"5: a function that calls itself",
		operation("local function f(n)\n  return f(n - 1)\nend\nreturn f(1)\n"),
		[]string{"op.lua:4: f calls itself"}},
	{"5: functions that call each other", operation(
		"local g\nlocal function f() return g() end\ng = function() return f() end\nreturn f()\n"),
		[]string{"op.lua:5: a function is declared as local function, or its calls are not seen"}},
	{"5: functions that call each other by values", operation(
		"local t = {}\nlocal function f() return t.f() end\nt.f = f\nreturn f()\n"),
		[]string{"op.lua:5: the function f is a value: its calls could not be seen"}},
	{"5: a function is assigned to", operation("local function f() end\nf = 1\nreturn f()\n"),
		[]string{"op.lua:4: the function f is assigned to"}},
}

// luaWrongIncludes are scripts that include what they cannot.
var luaWrongIncludes = []luaCase{
	{"6: nobody includes it", with(operation(
		"return 1\n"), "parts/q.lua", header("q", "none; none; none; no; no")),
		[]string{"parts/q.lua:1: nobody includes it"}},
	{"6: it is missing", operation(
		"-- include parts/q.lua\nreturn 1\n"), []string{"op.lua:3: parts/q.lua is missing"}},
	{"6: it is no part", operation("-- include take.lua\nreturn 1\n"),
		[]string{"op.lua:3: an include is a line of its own, `-- include parts/NAME.lua`"}},
	{"6: more in the line", operation("-- include parts/common.lua for PART\nreturn 1\n"),
		[]string{"op.lua:3: an include is a line of its own, `-- include parts/NAME.lua`"}},
	{"6: an include in a function", operation(
		"local function f()\n  -- include parts/common.lua\nend\nreturn f()\n"),
		[]string{"op.lua:4: an include in a function"}},
	{"6: an include in an expression", operation(
		"local x = 1 +\n-- include parts/common.lua\nreturn x\n"),
		[]string{"op.lua:4: an include that is no statement", "op.lua:4: nothing defines __include"}},
	{"6: an include in a text", operation("return [[\n-- include parts/common.lua\n]]\n"),
		[]string{"op.lua:4: an include that is no statement"}},
	{"6: a cycle", with(part("none; none; none; no; no", luaIncludesQ), "parts/q.lua",
		header("q", "none; none; none; no; no")+"-- include parts/p.lua\n"), []string{
		"parts/p.lua:7: parts/q.lua includes parts/p.lua again: a cycle",
		"parts/q.lua:7: parts/p.lua includes parts/q.lua again: a cycle"}},
	{"6: it includes itself", part("none; none; none; no; no", "-- include parts/p.lua\n"),
		[]string{"parts/p.lua:7: parts/p.lua includes parts/p.lua again: a cycle"}},
}

// luaWrongCalls are scripts that call what cannot be checked, have numbers without names, or do not end well.
var luaWrongCalls = []luaCase{
	{"7: a key that is no literal", operation(
		"local i = 1\nredis.call('GET', KEYS[i])\nredis.pcall('GET', ARGV[1])\n" +
			"redis.call('GET', 'x')\nredis.call('get')\nreturn 1\n"), []string{
		"op.lua:4: a key of GET is not written as KEYS[number]",
		"op.lua:5: a key of GET is not written as KEYS[number]",
		"op.lua:6: a key of GET is not written as KEYS[number]", "op.lua:7: GET without a key"}},
	{"7: the second of several keys",
		operation("local k = 'x'\nreturn redis.call('UNLINK', KEYS[1],\n  k)\n"),
		[]string{"op.lua:4: a key of UNLINK is not written as KEYS[number]"}},
	{"7: all keys at once", operation("return redis.call('DEL', unpack(KEYS))\n"),
		[]string{"op.lua:3: a key of DEL is not written as KEYS[number]"}},
	{"7: a command that is no literal", operation("redis.call(ARGV[2], KEYS[1])\nreturn 1\n"),
		[]string{"op.lua:3: the command is not written out"}},
	{"7: another command in expire.lua",
		map[string]string{"expire.lua": "-- expire.lua: x\n-- Reply: x\n" +
			"redis.call(ARGV[3], KEYS[1])\nredis.call(ARGV[2], ARGV[1])\nreturn 1\n"}, []string{
			"expire.lua:3: the command is not written out",
			"expire.lua:4: a key of ARGV[2] is not written as KEYS[number]"}},
	{"7: calls by another name", operation(
		"local call = redis.call\nlocal r = redis\nreturn redis[ARGV[1]]('TIME')\n"), []string{
		"op.lua:3: a function of redis is called, and nothing else",
		"op.lua:4: redis is a value: its calls could not be seen",
		"op.lua:5: the function of redis is not written out"}},

	{"8: a number without a name", operation(
		"local x = 11\nlocal y = x % 0x20 + 60e3\nreturn 1000 * y\n"), []string{
		"op.lua:3: 11 has no name: local NAME = 11", "op.lua:4: 0x20 has no name: local NAME = 0x20",
		"op.lua:4: 60e3 has no name: local NAME = 60e3"}},
	{"8: a constant is assigned to", operation("local MANY = 4000\nMANY = MANY + 1\nreturn MANY\n"),
		[]string{"op.lua:4: the constant MANY is assigned to"}},

	{"9: no return", operation("redis.call('TIME')\n"),
		[]string{"op.lua:3: the last statement is no return"}},
	{"9: a return in a block", operation(
		"do\n  return 1\nend\n"), []string{"op.lua:5: the last statement is no return"}},
	{"9: a return that is always reached", operation("do\n  return 1\nend\nreturn 2\n"),
		[]string{"op.lua:6: never reached: op.lua:4 has ended it"}},
	{"9: a part ends the script before its end", part("a; none; none; yes; no", "return a\n"),
		[]string{"op.lua:5: never reached: parts/p.lua:7 has ended it"}},
	{"9: a part ends the script and says no",
		part("a; none; none; no; no", "if a then\n  return a\nend\n"),
		[]string{"parts/p.lua:5: `ends the script:` no, but parts/p.lua:8 does: return"}},
	{"9: a part does not end the script and says yes", part("a; none; none; yes; no",
		"do\n  local function f()\n    return a\n  end\n  f()\nend\n"),
		[]string{"parts/p.lua:5: `ends the script:` yes, but it does not"}},

	{"writes: says no", part("a; none; none; no; no", "redis.call('SET', KEYS[1], a)\n"),
		[]string{"parts/p.lua:6: `writes:` no, but parts/p.lua:7 does: SET"}},
	{"writes: says no and includes one that does", with(part("a; none; none; yes; no", luaIncludesQ),
		"parts/q.lua", header("q", "a; none; none; yes; yes")+
			"if redis.call('INCRBY', KEYS[1], a) then\n  return 1\nend\n"),
		[]string{"parts/p.lua:6: `writes:` no, but parts/q.lua:7 does: INCRBY"}},
	{"writes: says yes", part("a; none; none; no; yes", "redis.call('GET', KEYS[1], a)\n"),
		[]string{"parts/p.lua:6: `writes:` yes, but it does not"}},
}

// luaIncludesBoth returns an operation that includes p and q.
func luaIncludesBoth(name string) string {
	return "-- " + name + ".lua: x\n-- Reply: x\n-- include parts/p.lua\n-- include parts/q.lua\nreturn a\n"
}
