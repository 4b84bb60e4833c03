package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// broken is how long most faults last: longer than any caller waits.
const broken = 600 * time.Millisecond

// OfServer are faults of one server, and of its data.
var OfServer = []Fault{
	{Name: "the server is killed, with nothing on disk", Errors: []string{notInitialized}, Break: kill},
	{Name: "the server is killed, with an append-only file",
		Setup:  Setup{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}},
		Errors: []string{"LOADING"}, Break: kill},
	{Name: "scripts are flushed again and again", Break: func(r *Round) {
		r.often(30, func() error { return r.Server.Admin().ScriptFlush(r.ctx).Err() })
	}},
	{Name: "connections of commands are killed", Break: func(r *Round) {
		r.often(10, func() error { return r.kills(r.Server.Admin(), "normal") })
	}},
	{Name: "connections of pub/sub are killed", Break: func(r *Round) {
		r.often(10, func() error { return r.kills(r.Server.Admin(), "pubsub") })
	}},
	{Name: "clients are paused", Break: func(r *Round) { r.pauses("ALL") }},
	{Name: "writing clients are paused", Break: func(r *Round) { r.pauses("WRITE") }},
	{Name: "the server stands still for 5 s", Break: func(r *Round) { r.stands(r.Server, 5*time.Second) }},
	{Name: "the disk cannot be written", Errors: []string{"MISCONF"}, Break: misconf},
	{Name: "the server is a replica for a moment", Errors: []string{"READONLY"},
		Break: func(r *Round) { r.replica("yes") }},
	{Name: "the server is a replica without a master, and serves no stale data",
		Errors: []string{"MASTERDOWN", "READONLY"}, Break: func(r *Round) { r.replica("no") }},
	{Name: "the server loads its data", Errors: []string{"LOADING"}, Break: loading},
	{Name: "a script of another program does not end", Errors: []string{"BUSY"},
		Setup: Setup{Args: []string{"--lua-time-limit", "50"}}, Break: busy},
	{Name: "the clock of the server goes an hour forward, and back",
		Setup: Setup{Clocked: true, Alone: true}, Break: func(r *Round) { r.steps(time.Hour, 0) }},
	{Name: "the clock of the server goes an hour back, and forward",
		Setup: Setup{Clocked: true, Alone: true}, Break: func(r *Round) { r.steps(-time.Hour, 0) }},
}

// kill kills the server while callers use it, and starts it again.
func kill(r *Round) {
	lost := r.counted()
	r.Server.Stop()
	end := time.Now()
	r.wait(broken / 2)
	r.Server.Restart(r.t)
	lost(end)
}

func (r *Round) pauses(mode string) {
	r.must(r.Server.Admin().Do(r.ctx, "CLIENT", "PAUSE", broken.Milliseconds(), mode).Err())
	r.wait(broken)
}

// misconf makes a save fail, by a directory in the place of the file. Then Redis refuses
// writes.
func misconf(r *Round) {
	admin := r.Server.Admin()
	inTheWay := filepath.Join(redistest.Must(admin.ConfigGet(r.ctx, "dir").Result())(r.t)["dir"], "dump.rdb")
	saves := func(status string) {
		r.must(admin.BgSave(r.ctx).Err())
		redistest.Eventually(r.t, "a save that is "+status, func() bool {
			info := admin.Info(r.ctx, "persistence").Val()
			return strings.Contains(info, "rdb_last_bgsave_status:"+status) &&
				strings.Contains(info, "rdb_bgsave_in_progress:0")
		})
	}
	r.must(os.Mkdir(inTheWay, 0o700))
	r.config("save", "3600 1")
	saves("err")
	r.wait(broken)
	r.must(os.Remove(inTheWay))
	saves("ok")
	r.config("save", "")
}

// replica makes the server a replica of a master that does not exist. It keeps its data.
func (r *Round) replica(stale string) {
	r.config("replica-serve-stale-data", stale)
	r.must(r.Server.Admin().ReplicaOf(r.ctx, "127.0.0.1", "1").Err())
	r.wait(broken)
	r.must(r.Server.Admin().ReplicaOf(r.ctx, "NO", "ONE").Err())
}

// patient returns a client for a slow command.
func (r *Round) patient() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: r.Server.Addr, MaxRetries: -1, ReadTimeout: patience})
}

// loading makes the server load its data again, slowly.
func loading(r *Round) {
	const keys, each = 3000, 250 * time.Microsecond
	admin := r.patient()
	defer admin.Close()
	fill := admin.Pipeline()
	for i := range keys {
		fill.Set(r.ctx, fmt.Sprint("filler", i), "x", 0)
	}
	redistest.Must(fill.Exec(r.ctx))(r.t)
	r.config("key-load-delay", fmt.Sprint(each.Microseconds()))
	r.config("loading-process-events-interval-bytes", "1024")
	r.must(admin.Do(r.ctx, "DEBUG", "RELOAD").Err())
	r.config("key-load-delay", "0")
}

// busy runs an endless script, and kills it.
func busy(r *Round) {
	endless := r.patient()
	defer endless.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		endless.Eval(r.ctx, "while true do end", nil)
	}()
	r.wait(broken)
	redistest.Until(r.t, "killing the script", func() error {
		return r.Server.Admin().ScriptKill(r.ctx).Err()
	})
	<-ended
}

// steps sets the clock of the server to each of clocks in turn.
func (r *Round) steps(clocks ...time.Duration) {
	was := time.Duration(0)
	for _, clock := range clocks {
		since := time.Now()
		r.setClock(clock)
		if clock > was {
			r.lose(since, time.Now(), "the clock went forward: all intervals were over")
		}
		was = clock
		r.wait(broken)
	}
}
