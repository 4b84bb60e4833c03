package rratelimiter

import (
	"embed"
	"io/fs"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// Each operation is one file, which may include parts.
//
//go:embed scripts
var scriptFiles embed.FS

// Those that set something cannot tell whether they were done already: they are
// not sent again when their reply was lost.
var (
	acquireScript    = repeatable("acquire")
	releaseScript    = repeatable("release")
	peekScript       = repeatable("peek")
	othersScript     = repeatable("others")
	repairScript     = repeatable("repair")
	clearScript      = repeatable("clear")
	peersScript      = repeatable("peers")
	bookScript       = repeatable("book")
	trySetRateScript = onlyOnce("try_set_rate")
	setRateScript    = onlyOnce("set_rate")
	deleteScript     = onlyOnce("delete")
	renameScript     = onlyOnce("rename")
	expireScript     = onlyOnce("expire")
)

func repeatable(name string) *redisx.Script { return redisx.Load(scriptDir(), name+".lua", true) }

func onlyOnce(name string) *redisx.Script { return redisx.Load(scriptDir(), name+".lua", false) }

// scriptDir is the directory that included parts are named from.
func scriptDir() fs.FS {
	dir, err := fs.Sub(scriptFiles, "scripts")
	if err != nil {
		panic(err) // the name of the directory is no valid one
	}
	return dir
}
