package redistest

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Calls returns how often a server was sent one of these commands, including refused ones. The names are
// those of INFO: in lower case, as in "evalsha".
func Calls(t TB, rdb redis.Cmdable, commands ...string) (n int64) {
	t.Helper()
	stats := Must(rdb.Info(context.Background(), "commandstats").Result())(t)
	for line := range strings.Lines(stats) {
		name, fields, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
		if !slices.Contains(commands, name) {
			continue
		}
		for field := range strings.SplitSeq(fields, ",") {
			if key, value, _ := strings.Cut(field, "="); key == "calls" || key == "rejected_calls" {
				n += Must(strconv.ParseInt(value, 10, 64))(t)
			}
		}
	}
	return n
}
