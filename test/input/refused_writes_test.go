package input_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A server that refuses to write for a while is not silent: it replies with an
// error. What it has granted to callers that left just before cannot be taken back
// then, and must be taken back afterwards. So each trouble comes and goes a few
// times, while callers come and leave all the time.

// A trouble is a state in which a server refuses what a script writes.
type trouble struct {
	times  int
	lasts  time.Duration
	begins func(b *Bench)
	ends   func(b *Bench)
}

// config sets a parameter of the server.
func setConfig(b *Bench, parameter, value string) {
	b.Helper()
	b.Want(b.Look.ConfigSet(context.Background(), parameter, value).Err())
}

// snapshot is where the server saves its data.
func snapshot(b *Bench) string {
	b.Helper()
	dir, err := b.Look.ConfigGet(context.Background(), "dir").Result()
	b.Want(err)
	return filepath.Join(dir["dir"], "dump.rdb")
}

// save has the server save its data, whether it can or not.
func save(b *Bench, status string) {
	b.Helper()
	b.Want(b.Look.BgSave(context.Background()).Err())
	Until(b.T, func() bool {
		info := b.Look.InfoMap(context.Background(), "persistence").Val()["Persistence"]
		return info["rdb_bgsave_in_progress"] == "0" && info["rdb_last_bgsave_status"] == status
	})
}

// refusals returns how often the server has said so.
func refusalsOf(b *Bench, code string) (n int64) {
	b.Helper()
	stats, err := b.Look.Info(context.Background(), "errorstats").Result()
	b.Want(err)
	for stat := range strings.FieldsSeq(stats) {
		if _, err := fmt.Sscanf(stat, "errorstat_"+code+":count=%d", &n); err == nil {
			return n
		}
	}
	return 0
}

var troubles = map[string]trouble{
	"BUSY": {
		times: 3, lasts: 600 * time.Millisecond,
		begins: func(b *Bench) {
			setConfig(b, "lua-time-limit", "20") // busy-reply-threshold, by its older name
			c := redis.NewClient(&redis.Options{Addr: b.Look.Options().Addr, ReadTimeout: time.Minute})
			b.Cleanup(func() { _ = c.Close() })
			go func() { // it ends
				const loop = "for i = 1, 40000000 do end" // some 400 ms
				_ = c.Eval(context.Background(), loop, nil).Err()
			}()
		},
		ends: func(b *Bench) {
			Until(b.T, func() bool { return b.Look.Ping(context.Background()).Err() == nil })
		},
	},
	"OOM": {
		times: 20, lasts: 20 * time.Millisecond,
		begins: func(b *Bench) { setConfig(b, "maxmemory", "1") },
		ends:   func(b *Bench) { setConfig(b, "maxmemory", "0") },
	},
	"MISCONF": { // nothing can be saved where a directory stands
		times: 4, lasts: 100 * time.Millisecond,
		begins: func(b *Bench) {
			setConfig(b, "save", "3600 1000000000")
			b.Want(os.RemoveAll(snapshot(b)))
			b.Want(os.MkdirAll(filepath.Join(snapshot(b), "in the way"), 0o700))
			save(b, "err")
		},
		ends: func(b *Bench) {
			b.Want(os.RemoveAll(snapshot(b)))
			save(b, "ok")
		},
	},
	"NOREPLICAS": {
		times: 20, lasts: 20 * time.Millisecond,
		begins: func(b *Bench) { setConfig(b, "min-replicas-to-write", "1") },
		ends:   func(b *Bench) { setConfig(b, "min-replicas-to-write", "0") },
	},
}

// When a trouble has passed, callers hold all that is out.
func TestNothingIsLostToAPassingTrouble(t *testing.T) {
	for code, tr := range troubles {
		for format, opts := range map[string][]rratelimiter.Option{
			"default": nil, "resolution": {rratelimiter.WithResolution(100 * time.Millisecond)},
		} {
			t.Run(code+", "+format, func(t *testing.T) {
				t.Parallel()
				tr.comesAndGoes(t, code, opts...)
			})
		}
	}
}

func (tr trouble) comesAndGoes(t *testing.T, code string, opts ...rratelimiter.Option) {
	const rate = 10_000_000 // never refused, or no leaver is granted anything
	s := redistest.Start(t)
	b := NewBench(t, s.Client(t), s.Admin())
	c := NewClient(t, b.RDB, opts...)
	l := b.Wrap(c.RateLimiter(redistest.Name(t)))
	b.Want(l.SetRate(t.Context(), Overall, rate, time.Hour))
	l.Takes(1) // the scripts are known to the server from here on
	var held, left atomic.Int64
	held.Store(1)
	var all sync.WaitGroup
	stop := make(chan struct{})
	for range 10 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := 1 + rand.Int64N(5)
				ctx, cancel := context.WithTimeout(context.Background(),
					time.Duration(rand.IntN(2000))*time.Microsecond)
				ok, err := l.TryAcquire(ctx, n, 0)
				switch {
				case ok:
					held.Add(n)
					if err != nil {
						t.Errorf("granted, and %v", err)
					}
				case err == nil:
					t.Error("refused, and the rate is never reached")
				case ctx.Err() != nil:
					left.Add(1)
				}
				cancel()
			}
		})
	}
	for range tr.times {
		time.Sleep(20 * time.Millisecond)
		tr.begins(b)
		time.Sleep(tr.lasts)
		tr.ends(b)
	}
	close(stop)
	all.Wait()
	met := refusalsOf(b, code)
	t.Logf("%d are held, %d callers left, Redis has said %s %d times", held.Load(), left.Load(), code, met)
	if left.Load() == 0 || met == 0 {
		t.Error("the spec has tried nothing")
	}
	l.UntilOut(held.Load())
	l.Has(rate - held.Load())
	l.Keeps(rate, l.ValueKey(), l.PermitsKey())
}
