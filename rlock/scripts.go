package rlock

import (
	"embed"
	"io/fs"
	"strconv"
	"strings"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// The scripts have one file for each operation.
//
//go:embed scripts
var scriptFiles embed.FS

// Scripts may be sent again, because they state a result, not a step; forced unlocks may not.
var (
	lockScript   = redisx.Load(scriptDir(), "lock.lua", true)
	unlockScript = redisx.Load(scriptDir(), "unlock.lua", true)
	forceScript  = redisx.Load(scriptDir(), "force.lua", false)
	renewScripts = renewals()

	fairLockScript   = redisx.Load(scriptDir(), "fair_lock.lua", true)
	fairKeepScript   = redisx.Load(scriptDir(), "fair_keep.lua", true)
	fairUnlockScript = redisx.Load(scriptDir(), "fair_unlock.lua", true)
	fairForceScript  = redisx.Load(scriptDir(), "fair_force.lua", false)
)

// batches are the numbers of locks that one script call renews. Each has its own script, because some
// servers require literal keys.
var batches = [...]int{100, 10, 1}

func scriptDir() fs.FS {
	dir, err := fs.Sub(scriptFiles, "scripts")
	if err != nil {
		panic(err) // the name is not a valid path
	}
	return dir
}

// renewals returns the script for each of batches.
func renewals() (scripts [len(batches)]*redisx.Script) {
	text := redisx.Included(scriptDir(), "renew.lua")
	for i, n := range batches {
		scripts[i] = redisx.NewScript(repeated(text, n), true)
	}
	return scripts
}

// repeated returns the text of renew.lua for n locks.
func repeated(text string, n int) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "kept[1]") {
			all.WriteString(line)
			continue
		}
		for i := 1; i <= n; i++ {
			all.WriteString(strings.NewReplacer(
				"kept[1]", "kept["+strconv.Itoa(i)+"]",
				"KEYS[1]", "KEYS["+strconv.Itoa(i)+"]",
				"ARGV[2]", "ARGV["+strconv.Itoa(i+1)+"]",
			).Replace(line))
		}
	}
	return all.String()
}
