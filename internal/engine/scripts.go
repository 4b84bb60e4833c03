package engine

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/scripts"
)

// Each operation is one file of package scripts, which may include parts. A
// script that sets something cannot tell whether it was already carried out, so
// it is not sent again when its reply is lost: another client may have set
// something else meanwhile.
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

func repeatable(name string) *redisx.Script { return redisx.Load(scripts.Files, name+".lua", true) }

func onlyOnce(name string) *redisx.Script { return redisx.Load(scripts.Files, name+".lua", false) }

// The marks in all.lua. The text from JUDGE to DECIDE and from WRITE to END is
// repeated for each limiter; the text from DECIDE to WRITE stands once.
const (
	markJudge  = "do -- JUDGE\n"
	markDecide = "  -- DECIDE\n"
	markWrite  = "  -- WRITE\n"
	markEnd    = "end -- END\n"
)

// allOf returns the script that takes permits from a number of limiters. It nests
// the text of one limiter, so that the script writes nothing before all limiters
// have granted.
func allOf(limiters int) *redisx.Script {
	source := redisx.Included(scripts.Files, "all.lua")
	cut := func(mark string) (before string) {
		before, source, _ = strings.Cut(source, mark)
		return before
	}
	head, judge, decide, write := cut(markJudge), cut(markDecide), cut(markWrite), cut(markEnd)
	var all strings.Builder
	all.WriteString(head)
	for i := range limiters {
		all.WriteString(numbered(markJudge+judge, i))
	}
	all.WriteString(decide)
	for i := range limiters {
		all.WriteString(numbered(write+markEnd, limiters-1-i))
	}
	all.WriteString(source)
	return redisx.NewScript(all.String(), true)
}

// argsOfEach are the positions in ARGV that each limiter of all.lua has for
// itself.
var argsOfEach = [...]int{argType, argPermits, argRecords, argGivenRate}

// argOf returns the position of one of argsOfEach, for a limiter.
func argOf(arg, limiter int) int {
	i := slices.Index(argsOfEach[:], arg)
	if limiter == 0 || i < 0 {
		return arg
	}
	return argMembers + len(argsOfEach)*(limiter-1) + i
}

// numbered returns the text for one of the limiters, with the numbers of its
// keys. They are literals, because some managed Redis services reject computed
// keys.
func numbered(text string, limiter int) string {
	const keys = 3 // of a limiter
	return regexp.MustCompile(`\b(KEYS|ARGV)\[(\d+)\]`).ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s[len("KEYS[") : len(s)-1])
		if strings.HasPrefix(s, "KEYS") {
			return fmt.Sprintf("KEYS[%d]", keys*limiter+n)
		}
		return fmt.Sprintf("ARGV[%d]", argOf(n, limiter))
	})
}
