package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A usage is what a server has done since it started, or between two moments.
type usage struct {
	cpu      float64 // seconds of its process: all threads, user and system
	commands map[string]command
}

// A command is what INFO says of one command. Commands inside scripts count
// too, and the time of a script includes that of its commands.
type command struct{ calls, usec float64 }

// readUsage asks the server. Two usages are subtracted (since); resetting the
// counts instead would take them from other readers.
func readUsage(ctx context.Context, rdb *redis.Client) (usage, error) {
	info, err := rdb.InfoMap(ctx, "cpu", "commandstats").Result()
	if err != nil {
		return usage{}, err
	}
	return parseUsage(info)
}

// parseUsage reads fields like used_cpu_user:1.25 and
// cmdstat_evalsha:calls=2,usec=3,usec_per_call=1.50,...
func parseUsage(info map[string]map[string]string) (usage, error) {
	u := usage{commands: map[string]command{}}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(info["CPU"][field], 64)
		if err != nil {
			return u, fmt.Errorf("INFO cpu: %s: %w", field, err)
		}
		u.cpu += seconds
	}
	for field, text := range info["Commandstats"] {
		name, ok := strings.CutPrefix(field, "cmdstat_")
		if !ok {
			continue
		}
		var c command
		if _, err := fmt.Sscanf(text, "calls=%g,usec=%g", &c.calls, &c.usec); err != nil {
			return u, fmt.Errorf("INFO commandstats: %s:%s: %w", field, text, err)
		}
		u.commands[name] = c
	}
	return u, nil
}

// since returns what the server has done after an earlier usage.
func (u usage) since(before usage) usage {
	used := usage{cpu: u.cpu - before.cpu, commands: map[string]command{}}
	for name, c := range u.commands {
		earlier := before.commands[name]
		if c.calls > earlier.calls { // others would be zeros in every list
			used.commands[name] = command{c.calls - earlier.calls, c.usec - earlier.usec}
		}
	}
	return used
}

// add adds what another usage counts.
func (u *usage) add(other usage) {
	if u.commands == nil {
		u.commands = map[string]command{}
	}
	u.cpu += other.cpu
	for name, c := range other.commands {
		u.commands[name] = command{u.commands[name].calls + c.calls, u.commands[name].usec + c.usec}
	}
}

// scripts returns the script calls, sent in full or by their hash.
func (u usage) scripts() command {
	whole, hashed := u.commands["eval"], u.commands["evalsha"]
	return command{whole.calls + hashed.calls, whole.usec + hashed.usec}
}

// perScript returns the microseconds that one of n EVALSHAs took. Another count
// than n is an error: somebody else's script would be in the figure.
func (u usage) perScript(n int) (float64, error) {
	got := u.commands["evalsha"]
	if int(got.calls) != n {
		return 0, fmt.Errorf("%g EVALSHAs have run, not %d", got.calls, n)
	}
	return got.usec / got.calls, nil
}

// inside returns how often each command ran in one of n scripts.
func (u usage) inside(n int) map[string]float64 {
	perCall := map[string]float64{}
	for name, c := range u.commands {
		if name != "evalsha" && name != "info" { // the script itself, and readUsage
			perCall[name] = c.calls / float64(n)
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
