package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A usage is what INFO says of one command.
type usage struct{ calls, usec float64 }

// usages are the commands that have run since resetUsages, also those inside of
// scripts. The time of a script includes that of its commands.
type usages map[string]usage

func resetUsages(ctx context.Context, rdb *redis.Client) error {
	return rdb.ConfigResetStat(ctx).Err()
}

func readUsages(ctx context.Context, rdb *redis.Client) (usages, error) {
	info, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	return parseUsages(info)
}

// parseUsages reads lines as cmdstat_get:calls=2,usec=3,usec_per_call=1.50,...
func parseUsages(info string) (usages, error) {
	u := usages{}
	for lines := bufio.NewScanner(strings.NewReader(info)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "cmdstat_")
		if !ok {
			continue
		}
		command, numbers, _ := strings.Cut(rest, ":")
		var one usage
		if _, err := fmt.Sscanf(numbers, "calls=%g,usec=%g", &one.calls, &one.usec); err != nil {
			return nil, fmt.Errorf("INFO commandstats says %q: %w", lines.Text(), err)
		}
		u[command] = one
	}
	return u, nil
}

// ofScripts returns the microseconds that one of n EVALSHAs took.
func (u usages) ofScripts(n int) (float64, error) {
	got := u["evalsha"]
	if int(got.calls) != n {
		return 0, fmt.Errorf("%g EVALSHAs have run, not %d", got.calls, n)
	}
	return got.usec / got.calls, nil
}

// add adds those of other.
func (u usages) add(other usages) {
	for command, one := range other {
		u[command] = usage{u[command].calls + one.calls, u[command].usec + one.usec}
	}
}

// inside returns how often each command has run in one of n scripts.
func (u usages) inside(n int) map[string]float64 {
	perCall := map[string]float64{}
	for command, one := range u {
		switch command {
		case "evalsha", "config|resetstat", "info": // the script itself, and the measuring
		default:
			perCall[command] = one.calls / float64(n)
		}
	}
	return perCall
}

// serverVersion returns the version that the server says it has.
func serverVersion(ctx context.Context, rdb *redis.Client) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	_, after, _ := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(after, "\r")
	return version, err
}
