package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// usage is what a server has done up to now.
type usage struct {
	cpu     float64 // seconds of its process, all threads, user and system
	scripts float64 // script calls
	usec    float64 // that those took
}

func (u usage) since(before usage) usage {
	return usage{u.cpu - before.cpu, u.scripts - before.scripts, u.usec - before.usec}
}

func readUsage(ctx context.Context, rdb *redis.Client) (usage, error) {
	info, err := rdb.InfoMap(ctx, "cpu", "commandstats").Result()
	if err != nil {
		return usage{}, err
	}
	return parseUsage(info)
}

// parseUsage reads fields as used_cpu_user:1.25 and
// cmdstat_evalsha:calls=2,usec=3,usec_per_call=1.50,...
func parseUsage(info map[string]map[string]string) (u usage, err error) {
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][field], 64)
		if err != nil {
			return u, fmt.Errorf("INFO cpu: %s: %w", field, err)
		}
		u.cpu += seconds
	}
	for _, command := range []string{"cmdstat_eval", "cmdstat_evalsha"} {
		text, ok := info["Commandstats"][command]
		if !ok {
			continue
		}
		var calls, usec float64
		if _, err := fmt.Sscanf(text, "calls=%g,usec=%g", &calls, &usec); err != nil {
			return u, fmt.Errorf("INFO commandstats: %s:%s: %w", command, text, err)
		}
		u.scripts += calls
		u.usec += usec
	}
	return u, nil
}

// serverVersion returns the version that the server says it has.
func serverVersion(ctx context.Context, rdb *redis.Client) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	_, after, _ := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(after, "\r")
	return version, err
}
