package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

func pairOf(limiter string) wire.Pair { return wire.PairOf(limiter, "", wire.Overall) }

// A usage is what a server has done since it started, or between two moments.
type usage struct {
	cpu      num // seconds of its process: all threads, user and system
	commands map[string]command
}

// A command is what INFO says of one command. Commands inside scripts count too, and the time of a script
// includes that of its commands.
type command struct{ calls, usec num }

// readUsage asks the server. Two usages are subtracted (since); resetting the counts instead would take them
// from other readers.
func readUsage(ctx context.Context, rdb *redis.Client) (usage, error) {
	info, err := rdb.InfoMap(ctx, "cpu", "commandstats").Result()
	u := usage{commands: map[string]command{}}
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err2 := strconv.ParseFloat(info["CPU"][field], 64)
		u.cpu, err = u.cpu+num(seconds), errors.Join(err, err2)
	}
	for field, text := range info["Commandstats"] {
		var c command
		_, err2 := fmt.Sscanf(text, "calls=%g,usec=%g", &c.calls, &c.usec)
		u.commands[strings.TrimPrefix(field, "cmdstat_")], err = c, errors.Join(err, err2)
	}
	return u, err
}

// usageDuring returns what the server does during do, without reading its usage.
func usageDuring(ctx context.Context, rdb *redis.Client, do func() error) (usage, error) {
	before, err := readUsage(ctx, rdb)
	if err == nil {
		err = do()
	}
	if err != nil {
		return usage{}, err
	}
	after, err := readUsage(ctx, rdb)
	return after.since(before), err
}

// since returns what the server has done after an earlier usage.
func (u usage) since(before usage) usage {
	used := usage{cpu: u.cpu - before.cpu, commands: map[string]command{}}
	for name, c := range u.commands {
		if name != "info" { // readUsage
			earlier := before.commands[name]
			used.commands[name] = command{c.calls - earlier.calls, c.usec - earlier.usec}
		}
	}
	return used
}

// scripts returns the script calls, sent in full or by their hash.
func (u usage) scripts() command {
	whole, hashed := u.commands["eval"], u.commands["evalsha"]
	return command{whole.calls + hashed.calls, whole.usec + hashed.usec}
}

// all returns how many commands have run, with those inside scripts.
func (u usage) all() (n num) {
	for _, c := range u.commands {
		n += c.calls
	}
	return n
}

func infoOf(ctx context.Context, rdb *redis.Client, section, field string) (string, error) {
	info, err := rdb.InfoMap(ctx, section).Result()
	return info[section][field], err
}

func usedMemory(ctx context.Context, rdb *redis.Client) (num, error) {
	text, err := infoOf(ctx, rdb, "Memory", "used_memory")
	if err != nil {
		return 0, err
	}
	used, err := strconv.ParseFloat(text, 64)
	return num(used) / 1e6, err
}

// A traffic is what calls send through a proxy.
type traffic struct{ Trips, Sent, Received num }

// trafficOf returns the traffic of each of n calls, which do makes.
func trafficOf(proxy *redistest.Proxy, n int, do func() error) (traffic, error) {
	in, out, requests, _ := proxy.Stats()
	err := do()
	nowIn, nowOut, nowRequests, _ := proxy.Stats()
	return traffic{
		num(nowRequests-requests) / num(n), num(nowIn-in) / num(n), num(nowOut-out) / num(n),
	}, err
}

// longestScript returns the ms of the longest script of a limiter that runs during do, by the slow log of
// Redis. The log also has the commands inside scripts.
func longestScript(ctx context.Context, rdb *redis.Client, limiter string, do func() error) (num, error) {
	err := errors.Join(
		rdb.ConfigSet(ctx, "slowlog-max-len", "1000000").Err(),
		rdb.ConfigSet(ctx, "slowlog-log-slower-than", "10").Err(), // µs
		rdb.Do(ctx, "SLOWLOG", "RESET").Err(),
	)
	if err == nil {
		err = do()
	}
	if err != nil {
		return 0, err
	}
	entries, err := rdb.SlowLogGet(ctx, -1).Result()
	var longest time.Duration
	for _, e := range entries {
		if strings.HasPrefix(strings.ToLower(e.Args[0]), "eval") && slices.Contains(e.Args, limiter) {
			longest = max(longest, e.Duration)
		}
	}
	if err == nil && longest == 0 {
		err = errors.New("the slow log has no script")
	}
	// Its own entries would be in the next log if the watch went on.
	return millis(longest), errors.Join(err, rdb.ConfigSet(ctx, "slowlog-log-slower-than", "-1").Err())
}

// addRecords writes n records of one permit in Redisson's format: a length, 16 random bytes and the permits.
// Making them by acquires would take minutes.
func addRecords(ctx context.Context, rdb *redis.Client, limiter string, n int, at time.Time) error {
	const command = 500 // Redis does not stop for long at one command of 500
	for ; n > 0; n -= command {
		some := make([]redis.Z, min(n, command))
		for i := range some {
			b := binary.LittleEndian.AppendUint64([]byte{16}, rand.Uint64())
			b = binary.LittleEndian.AppendUint64(b, rand.Uint64())
			b = binary.LittleEndian.AppendUint32(b, 1) // the permits
			some[i] = redis.Z{Score: float64(at.UnixMilli()), Member: b}
		}
		if err := rdb.ZAdd(ctx, pairOf(limiter).Permits, some...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// take takes permits that must be there.
func take(ctx context.Context, l *rratelimiter.RateLimiter, permits int64) error {
	return granted(l.TryAcquire(ctx, permits, 0))
}

// errRefused is an acquire that was refused where the limit allows everything. Measuring refusals as grants
// would flatter a contestant.
var errRefused = errors.New("an acquire was refused")

// granted returns the error of a call that must be granted.
func granted(ok bool, err error) error {
	if err == nil && !ok {
		err = errRefused
	}
	return err
}
