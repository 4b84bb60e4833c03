package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// watchScripts starts the slow log of Redis anew, for commands that take at
// least so long. The log has room for all of them.
func watchScripts(ctx context.Context, rdb *redis.Client, least time.Duration) error {
	us := strconv.FormatInt(least.Microseconds(), 10)
	return errors.Join(
		rdb.ConfigSet(ctx, "slowlog-max-len", "1000000").Err(),
		rdb.ConfigSet(ctx, "slowlog-log-slower-than", us).Err(),
		rdb.Do(ctx, "SLOWLOG", "RESET").Err(),
	)
}

// watchedScripts returns how long the scripts of a limiter took since
// watchScripts, the longest first, and ends the watch. The log also has the
// commands inside scripts, which are left out, and scripts of others.
func watchedScripts(ctx context.Context, rdb *redis.Client, limiter string) ([]time.Duration, error) {
	entries, err := rdb.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, e := range entries {
		if strings.HasPrefix(strings.ToLower(e.Args[0]), "eval") && slices.Contains(e.Args, limiter) {
			took = append(took, e.Duration)
		}
	}
	// The log is by time; its own entries would be in the next measurement if the
	// watch went on.
	slices.Sort(took)
	slices.Reverse(took)
	return took, rdb.ConfigSet(ctx, "slowlog-log-slower-than", "-1").Err()
}
