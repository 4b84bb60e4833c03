package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// redisPart shows what a limiter on Redis costs, by algorithm, beside the library that
// people use for it now.
var redisPart = &part{
	name: "algorithms-redis", set: setPage, measure: measureRedis,
	about: "µs, Redis time, round trips and bytes of limiters on Redis, by algorithm, beside rivals",
}

// redisCallers are the numbers of callers. They ask for 1,000 keys in turns.
var redisCallers = [2]int{1, 64}

// A redisResult is what one contestant showed.
type redisResult struct {
	redisEntrant
	samples        [len(redisCallers)][]sample // by round
	trips          float64                     // per call
	sent, received float64                     // bytes per call
	perKey         float64                     // bytes of Redis
}

// A redisRun is a server on which all contestants take turns.
type redisRun struct {
	scope  *scope
	server *redistest.Server
	admin  *redis.Client
	proxy  *redistest.Proxy
	keys   []string
}

// measureRedis measures bytes first, and then speed round after round.
func measureRedis(ctx context.Context, s *scope) (finding, error) {
	server := redistest.Start(s)
	run := &redisRun{
		scope: s, server: server, admin: server.Admin(), proxy: redistest.StartProxy(s, server.Addr),
		keys: keysAtRandom(amount(s, 1000, 20)),
	}
	var results []*redisResult
	var asks []keyedAsk
	for _, e := range redisEntrants() {
		r := &redisResult{redisEntrant: e}
		err := run.weigh(ctx, r)
		var once keyedAsk
		if err == nil {
			once, err = e.keyed(s, server.Client(s, patient), generous)
		}
		if err != nil {
			return finding{}, fmt.Errorf("%s, %s: %w", e.algorithm, e.name, err)
		}
		results, asks = append(results, r), append(asks, once)
	}
	for round := range s.rounds {
		for i := range results {
			who := (i + round) % len(results)
			if err := run.batches(ctx, results[who], asks[who]); err != nil {
				return finding{}, fmt.Errorf("%s, %s: %w", results[who].algorithm, results[who].name, err)
			}
		}
		progress("algorithms-redis: round %d of %d", round+1, s.rounds)
	}
	return finding{redisDataOf(results), redisTargets(results)}, nil
}

// batches gives a contestant a batch with each number of callers.
func (run *redisRun) batches(ctx context.Context, r *redisResult, once keyedAsk) error {
	v := &visits{users: run.keys, order: make([]int32, len(run.keys))}
	for i := range v.order {
		v.order[i] = int32(i)
	}
	for i, callers := range redisCallers {
		runtime.GC() //revive:disable-line:call-to-gc none pays for the garbage of another
		got, err := run.scope.runBatch(ctx, run.admin, v.asks(once, callers))
		if err != nil {
			return fmt.Errorf("%s: %w", callersText(callers), err)
		}
		r.samples[i] = append(r.samples[i], got)
	}
	return run.admin.FlushDB(ctx).Err()
}

// weigh counts bytes and round trips of calls for keys that are there, and what the keys
// take in Redis.
func (run *redisRun) weigh(ctx context.Context, r *redisResult) error {
	far := run.server.Client(run.scope, func(o *redis.Options) { o.Addr = run.proxy.Addr })
	once, err := r.keyed(run.scope, far, generous)
	if err != nil {
		return err
	}
	ask := func(keys []string) error {
		for _, key := range keys {
			if ok, err := once(ctx, key); err != nil || !ok {
				return fmt.Errorf("%w: %v", errRefused, err)
			}
		}
		return nil
	}
	// The script is loaded, and the table of keys is as large as it becomes.
	if err := ask(run.keys[:1]); err != nil {
		return err
	}
	for _, key := range run.keys {
		if err := run.admin.Set(ctx, "other:"+key, 1, 0).Err(); err != nil {
			return err
		}
	}
	before, err := usedMemory(ctx, run.admin)
	if err != nil {
		return err
	}
	if err := ask(run.keys[1:]); err != nil {
		return err
	}
	after, err := usedMemory(ctx, run.admin)
	if err != nil {
		return err
	}
	// Noise may make nothing less than that.
	r.perKey = max(0, (after-before)*1e6/float64(len(run.keys)-1))
	in, out, requests, _ := run.proxy.Stats()
	if err := ask(run.keys); err != nil {
		return err
	}
	nowIn, nowOut, nowRequests, _ := run.proxy.Stats()
	n := float64(len(run.keys))
	r.trips, r.sent, r.received = float64(nowRequests-requests)/n, float64(nowIn-in)/n, float64(nowOut-out)/n
	return run.admin.FlushDB(ctx).Err()
}
