package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// broken is how long most faults last: longer than all callers wait.
const broken = 600 * time.Millisecond

// OfServer are faults of one server, and of its data.
var OfServer = []Fault{
	{
		Name:   "the server is killed, with nothing on disk",
		Errors: []string{notInitialized},
		Break:  kill,
	},
	{
		Name:   "the server is killed, with an append-only file",
		Setup:  Setup{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}},
		Errors: []string{"LOADING"},
		Break:  kill,
	},
	{Name: "scripts are flushed again and again", Break: func(ctx context.Context, r *Round) error {
		return often(ctx, 30, func() error { return r.Server.Admin().ScriptFlush(ctx).Err() })
	}},
	{Name: "connections of commands are killed", Break: func(ctx context.Context, r *Round) error {
		return often(ctx, 10, func() error { return kills(ctx, r.Server.Admin(), "normal") })
	}},
	{Name: "connections of pub/sub are killed", Break: func(ctx context.Context, r *Round) error {
		return often(ctx, 10, func() error { return kills(ctx, r.Server.Admin(), "pubsub") })
	}},
	{Name: "clients are paused", Break: func(ctx context.Context, r *Round) error {
		return r.pauses(ctx, "ALL")
	}},
	{Name: "writing clients are paused", Break: func(ctx context.Context, r *Round) error {
		return r.pauses(ctx, "WRITE")
	}},
	{Name: "the server stands still for 5 s", Break: func(ctx context.Context, r *Round) error {
		thaw := r.Server.Freeze(r.t)
		wait(ctx, 5*time.Second)
		thaw()
		return nil
	}},
	{Name: "the disk cannot be written", Errors: []string{"MISCONF"}, Break: misconf},
	{Name: "the server is a replica for a moment", Errors: []string{"READONLY"},
		Break: func(ctx context.Context, r *Round) error { return r.replica(ctx, "yes") }},
	{Name: "the server is a replica without a master, and tells nothing old",
		Errors: []string{"MASTERDOWN", "READONLY"},
		Break:  func(ctx context.Context, r *Round) error { return r.replica(ctx, "no") }},
	{Name: "the server loads its data", Errors: []string{"LOADING"}, Break: loading},
	{Name: "a script of another program does not end", Errors: []string{"BUSY"},
		Setup: Setup{Args: []string{"--lua-time-limit", "50"}}, Break: busy},
	{Name: "the clock of the server goes an hour forward, and back",
		Setup: Setup{Clocked: true, Alone: true},
		Break: func(ctx context.Context, r *Round) error { return r.steps(ctx, time.Hour, 0) }},
	{Name: "the clock of the server goes an hour back, and forward",
		Setup: Setup{Clocked: true, Alone: true},
		Break: func(ctx context.Context, r *Round) error { return r.steps(ctx, -time.Hour, 0) }},
	{Name: "the clock of the server goes astray beside Java", Setup: Setup{Clocked: true},
		Unlimited: "the clock of the server is another one than that of Java",
		Break: func(ctx context.Context, r *Round) error {
			return r.steps(ctx, time.Hour, -time.Hour, 0)
		}},
}

// kill kills the server in the midst of all, and starts it again.
func kill(ctx context.Context, r *Round) error {
	c := r.count(ctx, r.Server)
	wait(ctx, broken/4)
	since := time.Now()
	r.Server.Stop()
	until := time.Now()
	wait(ctx, broken/2)
	r.Server.Restart(r.t)
	return c.lost(ctx, r, since, until)
}

// often does something many times.
func often(ctx context.Context, times int, what func() error) error {
	for range times {
		if err := what(); err != nil {
			return err
		}
		wait(ctx, broken/time.Duration(times))
	}
	return nil
}

// kills kills connections, but for that of the test.
func kills(ctx context.Context, rdb *redis.Client, kind string) error {
	return rdb.ClientKillByFilter(ctx, "TYPE", kind, "SKIPME", "yes").Err()
}

func (r *Round) pauses(ctx context.Context, mode string) error {
	err := r.Server.Admin().Do(ctx, "CLIENT", "PAUSE", broken.Milliseconds(), mode).Err()
	wait(ctx, broken)
	return err
}

// misconf lets a save fail, for a directory is where the file should go. Then Redis
// refuses writes.
func misconf(ctx context.Context, r *Round) error {
	admin := r.Server.Admin()
	dir, err := admin.ConfigGet(ctx, "dir").Result()
	if err != nil {
		return err
	}
	inTheWay := filepath.Join(dir["dir"], "dump.rdb")
	if err := errors.Join(os.Mkdir(inTheWay, 0o700), admin.ConfigSet(ctx, "save", "3600 1").Err(),
		admin.BgSave(ctx).Err(), saved(ctx, admin, "err")); err != nil {
		return err
	}
	wait(ctx, broken)
	return errors.Join(os.Remove(inTheWay), admin.BgSave(ctx).Err(), saved(ctx, admin, "ok"),
		admin.ConfigSet(ctx, "save", "").Err())
}

// saved waits until the last save has that status.
func saved(ctx context.Context, admin *redis.Client, status string) error {
	return until(ctx, func() error {
		info, err := admin.Info(ctx, "persistence").Result()
		if err == nil && (!strings.Contains(info, "rdb_last_bgsave_status:"+status) ||
			!strings.Contains(info, "rdb_bgsave_in_progress:0")) {
			err = fmt.Errorf("the last save is not %s", status)
		}
		return err
	})
}

// replica makes the server a replica of one that does not exist. It keeps its data.
func (r *Round) replica(ctx context.Context, stale string) error {
	admin := r.Server.Admin()
	err := errors.Join(admin.ConfigSet(ctx, "replica-serve-stale-data", stale).Err(),
		admin.ReplicaOf(ctx, "127.0.0.1", "1").Err())
	wait(ctx, broken)
	return errors.Join(err, admin.ReplicaOf(ctx, "NO", "ONE").Err())
}

// loading has the server load its data again, slowly.
func loading(ctx context.Context, r *Round) error {
	const keys, each = 3000, 250 * time.Microsecond
	admin := redis.NewClient(&redis.Options{Addr: r.Server.Addr, MaxRetries: -1, ReadTimeout: patience})
	defer admin.Close()
	fill := admin.Pipeline()
	for i := range keys {
		fill.Set(ctx, fmt.Sprint("filler", i), "x", 0)
	}
	if _, err := fill.Exec(ctx); err != nil {
		return err
	}
	return errors.Join(admin.ConfigSet(ctx, "key-load-delay", fmt.Sprint(each.Microseconds())).Err(),
		admin.ConfigSet(ctx, "loading-process-events-interval-bytes", "1024").Err(),
		admin.Do(ctx, "DEBUG", "RELOAD").Err(),
		admin.ConfigSet(ctx, "key-load-delay", "0").Err())
}

// busy runs a script without an end, and kills it.
func busy(ctx context.Context, r *Round) error {
	endless := redis.NewClient(&redis.Options{Addr: r.Server.Addr, MaxRetries: -1, ReadTimeout: patience})
	defer endless.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		endless.Eval(ctx, "while true do end", nil)
	}()
	wait(ctx, broken)
	err := until(ctx, func() error { return r.Server.Admin().ScriptKill(ctx).Err() })
	<-ended
	return err
}

// steps sets the clock of the server, some times.
func (r *Round) steps(ctx context.Context, clocks ...time.Duration) error {
	was := time.Duration(0)
	for _, clock := range clocks {
		since := time.Now()
		r.setClock(clock)
		if clock > was {
			r.lose(since, time.Now(), "the clock went forward: all intervals were over")
		}
		was = clock
		wait(ctx, broken)
	}
	return nil
}

// split returns host and port.
func split(addr string) (host, port string) {
	host, port, _ = net.SplitHostPort(addr)
	return host, port
}
