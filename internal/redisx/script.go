package redisx

import (
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
	"strings"
)

// A Script is one operation in Lua.
type Script struct {
	Source string
	hash   any // its SHA-1, boxed once for go-redis

	// repeatable scripts may be sent again when their reply is lost: either they
	// recognise a copy, or a second run does no harm and replies the same.
	repeatable bool
}

// Load returns the script in a file, with the parts that it includes. It panics
// if a file is missing, because the files are embedded in the program.
func Load(files fs.FS, file string, repeatable bool) *Script {
	return NewScript(Included(files, file), repeatable)
}

// NewScript returns the script with a text without includes.
func NewScript(text string, repeatable bool) *Script {
	source := withoutComments(text)
	sum := sha1.Sum([]byte(source))
	return &Script{source, hex.EncodeToString(sum[:]), repeatable}
}

// Included returns the text of a file with the parts that it includes: a line
// `-- include FILE` stands for all of FILE.
func Included(files fs.FS, file string) string {
	text, err := fs.ReadFile(files, file)
	if err != nil {
		panic(err)
	}
	var all strings.Builder
	for line := range strings.Lines(string(text)) {
		if part, ok := strings.CutPrefix(strings.TrimSpace(line), "-- include "); ok {
			all.WriteString(Included(files, part))
		} else {
			all.WriteString(line)
		}
	}
	return all.String()
}

// withoutComments blanks the comments, which Redis ignores, so that a change of
// one does not change the hash of the script. Lines keep their numbers, because
// errors name them.
func withoutComments(source string) string {
	var all strings.Builder
	for line := range strings.Lines(source) {
		all.WriteString(strings.TrimRight(line[:commentStart(line)], " \n"))
		all.WriteByte('\n')
	}
	return all.String()
}

// commentStart returns where the comment of a line begins, or the length of a
// line without one. Strings of the scripts begin and end on one line.
func commentStart(line string) int {
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
