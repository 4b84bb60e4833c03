package scripts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// redis5 are the commands and options of the scripts, all of which Redis 5.0
// knows. What is newer must not get in here. Nor would an older server do:
// since 5.0 a script may write when it has asked for the TIME.
var redis5 = map[string][]string{
	"EXISTS": nil, "PERSIST": nil, "PEXPIRE": nil, "PEXPIREAT": nil, "PTTL": nil, "RENAME": nil,
	"UNLINK": nil,
	"GET":    nil, "INCRBY": nil, "SET": nil,
	"HDEL": nil, "HGET": nil, "HLEN": nil, "HMGET": nil, "HSCAN": {"COUNT", "MATCH"}, "HSET": nil,
	"ZADD": {"NX", "XX"}, "ZCARD": nil, "ZCOUNT": nil, "ZRANGE": {"WITHSCORES"},
	"ZRANGEBYSCORE": {"LIMIT", "WITHSCORES"}, "ZREM": nil,
	"ZREMRANGEBYRANK": nil, "ZREVRANGE": {"WITHSCORES"}, "ZREVRANGEBYSCORE": {"LIMIT", "WITHSCORES"},
	"ZSCORE":  nil,
	"PUBLISH": nil, "TIME": nil,
}

// No script calls a command or an option that is newer than Redis 5.0.
func TestScriptsNeedNoMoreThanRedis5(t *testing.T) {
	call := regexp.MustCompile(`redis\.p?call\b`)
	word := regexp.MustCompile(`'([A-Z]+)'`)
	used := map[string]bool{}
	files, _ := filepath.Glob("*.lua")
	parts, _ := filepath.Glob("parts/*.lua")
	if files = append(files, parts...); len(parts) == 0 {
		t.Fatal(files)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range call.Split(string(source), -1)[1:] {
			args, _, _ := strings.Cut(after, "\n")
			if file == "expire.lua" && strings.HasPrefix(args, "(ARGV[2],") { // what expire.go passes
				args = strings.Replace(args, "ARGV[2]", "'PEXPIRE'", 1)
				used["PEXPIREAT"] = true
			}
			words := word.FindAllStringSubmatch(args, -1)
			if len(words) == 0 || !strings.HasPrefix(args, "("+words[0][0]) {
				t.Errorf("%s: the command of call%s is not literal", file, args)
				continue
			}
			command := words[0][1]
			options, known := redis5[command]
			if !known {
				t.Errorf("%s: %s is not known to be in Redis 5.0", file, command)
			}
			used[command] = true
			for _, o := range words[1:] {
				if !slices.Contains(options, o[1]) {
					t.Errorf("%s: %s with %s is not known to be in Redis 5.0", file, command, o[1])
				}
				used[command+" "+o[1]] = true
			}
		}
	}
	needless(t, used)
}

// needless finds what stands in redis5 and no script uses.
func needless(t *testing.T, used map[string]bool) {
	t.Helper()
	for command, options := range redis5 {
		for _, o := range options {
			if !used[command+" "+o] {
				t.Errorf("%s with %s is used no more", command, o)
			}
		}
		if !used[command] {
			t.Errorf("%s is used no more", command)
		}
	}
}
