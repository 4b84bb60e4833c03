package rratelimiter

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

// Each operation is one file, which may include parts.
//
//go:embed scripts
var scriptFiles embed.FS

// A script is one operation on a limiter.
type script struct {
	source string
	hash   any // its SHA-1, boxed for go-redis

	// repeatable scripts may be sent again when their reply was lost: they
	// find out that they were done, or do no harm and answer the same.
	repeatable bool
}

var (
	acquireScript    = newScript("acquire", true)
	releaseScript    = newScript("release", true)
	peekScript       = newScript("peek", true)
	othersScript     = newScript("others", true)
	repairScript     = newScript("repair", true)
	trySetRateScript = newScript("try_set_rate", false)
	setRateScript    = newScript("set_rate", false)
	clearScript      = newScript("clear", true)
	deleteScript     = newScript("delete", false)
	renameScript     = newScript("rename", false)
	expireScript     = newScript("expire", false)
)

func newScript(name string, repeatable bool) *script {
	source := withoutComments(included(name + ".lua"))
	sum := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(sum[:]), repeatable}
}

// included returns a file of scripts/ with the parts that it includes: a line
// `-- include FILE` stands for all of FILE.
func included(file string) string {
	text, err := scriptFiles.ReadFile("scripts/" + file)
	if err != nil {
		panic(err) // it is not in the package
	}
	var all strings.Builder
	for line := range strings.Lines(string(text)) {
		if part, ok := strings.CutPrefix(strings.TrimSpace(line), "-- include "); ok {
			all.WriteString(included(part))
		} else {
			all.WriteString(line)
		}
	}
	return all.String()
}

// withoutComments blanks what Redis passes over, so that another word in a
// comment does not make another script of it. Lines keep their numbers, for
// errors tell them.
func withoutComments(source string) string {
	var all strings.Builder
	for line := range strings.Lines(source) {
		all.WriteString(strings.TrimRight(line[:code(line)], " \n"))
		all.WriteByte('\n')
	}
	return all.String()
}

// code returns where the comment of a line begins, or the line ends. Strings of
// the scripts begin and end in one line.
func code(line string) int {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.HasPrefix(line[i:], "--"):
			return i
		}
	}
	return len(line)
}
