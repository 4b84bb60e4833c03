package request

import (
	"fmt"
	"slices"
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
	healScript       = repeatable("heal")
	peekScript       = repeatable("peek")
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

// markMember stands at both ends of a text of all.lua or settle.lua that is repeated for each limiter.
const markMember = "-- MEMBER\n"

// forMembers returns the script of a file for a number of limiters. Its text has the commands on the keys of
// one limiter, which are repeated for the others with their numbers of keys: some managed Redis services
// refuse a key that is not written out.
func forMembers(file string, limiters int) *redisx.Script {
	return redisx.NewScript(repeated(redisx.Included(scripts.Files, file), limiters), true)
}

// repeated returns the text of forMembers.
func repeated(text string, limiters int) string {
	const keys = 3 // of a limiter
	var all strings.Builder
	for i, text := range strings.Split(text, markMember) {
		times := 1
		if i%2 == 1 {
			times = limiters
		}
		for member := range times {
			var numbers []string // of the keys, as they stand in the text and as they are
			for n := 1; n <= keys; n++ {
				numbers = append(numbers, fmt.Sprintf("KEYS[%d]", n), fmt.Sprintf("KEYS[%d]", keys*member+n))
			}
			all.WriteString(strings.NewReplacer(numbers...).Replace(text))
		}
	}
	return all.String()
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
