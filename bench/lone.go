package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
)

// The places of the kinds of measureLone. The rivals follow the last one.
const (
	loneFloor = iota
	loneCommands
	loneAcquire
	loneUser
	loneDeadline
	loneTimeout
	loneCancel
	loneDeadlineLeft
	loneTimeoutLeft
	loneReserve
	loneSettle
	loneRedisson
	loneRate
	loneUlule
)

// patience is longer than any call takes, so that no deadline ends one.
const patience = 10 * time.Second

// loneKinds are a script that does nothing, the calls of this library, and those of its rivals.
func loneKinds(java func(context.Context, string, bool, int) (spread, error), version string) []limitKind {
	kept := func(c costClient) *rratelimiter.Client { return c.keeps }
	left := func(c costClient) *rratelimiter.Client { return c.Client }
	kinds := []limitKind{
		loneFloor: {name: labels[floor], rival: true, ask: func(c costClient, name string, _ state) ask {
			return newFloor(c.rdb)(name)
		}},
		loneCommands: {name: "commands of a grant, unchecked", rival: true, waits: true, ask: commandsAlone},
		loneAcquire:  {name: "TryAcquire", ask: endless(acquireOf(one))},
		loneUser:     {name: "Keyed.Allow", ask: endless(allowOf(user))},
		loneDeadline: {name: "TryAcquire, deadline, ContextTimeoutEnabled", ask: dated(kept)},
		loneTimeout:  {name: "TryAcquire, timeout, ContextTimeoutEnabled", waits: true, ask: timed(kept)},
		// As the context of the part can.
		loneCancel:       {name: "TryAcquire, can be cancelled", ask: acquireOf(one)},
		loneDeadlineLeft: {name: "TryAcquire, deadline, defaults of go-redis", ask: dated(left)},
		loneTimeoutLeft:  {name: "TryAcquire, timeout, defaults of go-redis", waits: true, ask: timed(left)},
		loneReserve:      {name: "Reserve", ask: reserves(false)},
		loneSettle:       {name: "Reserve, Settle", twice: true, ask: reserves(true)},
		loneRedisson:     {name: "Redisson " + version, batch: java},
	}
	for _, name := range []string{"redis_rate", "ulule/limiter", "rueidislimiter"} {
		kinds = append(kinds, limitKind{name: name, rival: true, ask: rivalAsk(rivalOnRedis(name))})
	}
	return kinds
}

// commandsAlone sends the commands of a grant without a check: what is read and written on keys that Java
// knows, and the note of the request. No script that grants on these keys can be faster.
func commandsAlone(c costClient, name string, _ state) ask {
	script := redis.NewScript(`
redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime', 'session')
redis.call('GET', KEYS[2])
redis.call('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')
local t = redis.call('TIME')
local now = t[1] .. string.sub('00000' .. t[2], -6, -4)
redis.call('ZADD', KEYS[3], now, ARGV[1])
redis.call('HSET', KEYS[1], 'session', now)
redis.call('INCRBY', KEYS[2], '-1')
return 0`)
	pair, record := pairOf(name), 0
	keys := []string{name, pair.Value, pair.Permits}
	return func(ctx context.Context) (bool, error) {
		record++ // 22 bytes, as in the records of Redisson
		return true, script.Run(ctx, c.rdb, keys, fmt.Sprintf("%022d", record)).Err()
	}
}

// endless asks with a context that does not end, as callers that do not wait usually have it.
func endless(of func(costClient, string, state) ask) func(costClient, string, state) ask {
	return func(c costClient, name string, st state) ask {
		once := of(c, name, st)
		return func(context.Context) (bool, error) { return once(context.Background()) }
	}
}

// dated asks with a context that has a deadline.
func dated(of func(costClient) *rratelimiter.Client) func(costClient, string, state) ask {
	return func(c costClient, name string, _ state) ask {
		l := of(c).RateLimiter(name)
		return func(ctx context.Context) (bool, error) {
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return l.TryAcquire(ctx, 1, 0)
		}
	}
}

// timed asks with a timeout.
func timed(of func(costClient) *rratelimiter.Client) func(costClient, string, state) ask {
	return func(c costClient, name string, _ state) ask {
		l := of(c).RateLimiter(name)
		return func(context.Context) (bool, error) { return l.TryAcquire(context.Background(), 1, patience) }
	}
}

// reserves reserves a permit, and perhaps settles it to none.
func reserves(settles bool) func(costClient, string, state) ask {
	return func(c costClient, name string, _ state) ask {
		l := c.Client.RateLimiter(name)
		return func(context.Context) (bool, error) {
			ctx := context.Background()
			r, err := l.Reserve(ctx, 1, 0)
			if settles && r != nil {
				err = r.Cancel(ctx)
			}
			return r != nil, err
		}
	}
}

// rivalAsk asks a rival on the server of a client. A rival is made once for each client and state: some make
// connections.
func rivalAsk(rival entrant) func(costClient, string, state) ask {
	type where struct {
		rdb *redis.Client
		terms
	}
	made := map[where]limiter{}
	return func(c costClient, name string, st state) ask {
		at := where{c.rdb, terms{st.rate, st.interval}}
		l, there := made[at]
		if !there {
			l = rival.keyed(env{c.scope, c.rdb, benchName, at.terms})
			made[at] = l
		}
		return func(ctx context.Context) (bool, error) { return l(ctx, name) }
	}
}

// measureLone measures what one call costs that shares its request with no other.
func measureLone(ctx context.Context, s *scope) finding {
	peer := get(s.peer(ctx))
	c := newCosting(s)
	names := map[bool]string{false: javaClient, true: javaClient + ", far"}
	get(peer.Connect(ctx, names[false], c.server.Addr))
	get(peer.Connect(ctx, names[true], c.proxy.Addr))
	java := func(ctx context.Context, name string, far bool, n int) (spread, error) {
		got, err := peer.Limiter(names[far], name).Loop(ctx, javapeer.LoopOptions{Count: int64(n)})
		return spread{num(got.P50us), num(got.P99us)}, err
	}
	kinds := loneKinds(java, peer.Version())
	all := c.measure(ctx, "lone", kinds)
	var tables []limitsTable
	var targets []target
	for i, st := range states {
		tables = append(tables, c.table(ctx, st, kinds, all[i], [2]int{loneAcquire, loneUser}))
		targets = append(targets, loneTargets(st, all[i])...)
	}
	granted := tables[0].Rows
	targets = append(targets,
		most("T7", "allocations of a TryAcquire", granted[loneAcquire].GoAlloc, 12, ""),
		most("T7", "allocations of a user's Allow", granted[loneUser].GoAlloc, 20, ""))
	return finding{struct {
		Batches, Batch int
		Tables         []limitsTable
	}{c.rounds, c.size, tables}, targets}
}

func loneTargets(st state, kinds [][]costSample) (all []target) {
	by := func(what string, kind, other int, of func(costSample) num, bound float64) {
		all = append(all, most("T2", st.name+": "+what, ratio(kinds[kind], kinds[other], of), bound, ""))
	}
	if st.taken > 0 {
		by("script time of a TryAcquire by Redisson", loneAcquire, loneRedisson, redisTime, 0.9)
		return all
	}
	by("script time of a TryAcquire by Redisson", loneAcquire, loneRedisson, redisTime, 1)
	by("p50 of a TryAcquire by redis_rate", loneAcquire, loneRate, costP50, 1.15)
	by("p50 of a TryAcquire by the unchecked commands of a grant", loneAcquire, loneCommands, costP50, 1.15)
	by("p50 of a TryAcquire with a deadline by redis_rate", loneDeadline, loneRate, costP50, 1.15)
	by("p50 of a TryAcquire with a timeout by redis_rate", loneTimeout, loneRate, costP50, 1.15)
	by("p50 of a Reserve by a TryAcquire", loneReserve, loneAcquire, costP50, 1.1)
	by("p50 of a Reserve and its Settle by a TryAcquire", loneSettle, loneAcquire, costP50, 2.1)
	by("p50 of a TryAcquire by the bare EVALSHA", loneAcquire, loneFloor, costP50, 1.35)
	return all
}
