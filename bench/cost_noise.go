package main

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/redis/go-redis/v9"
)

// noise is work that removes a limiter's keys, its script, and Redis's own code
// for them from the caches of the processor. A server with other users than
// limiters does such work.
type noise struct{ rdb *redis.Client }

// The amounts of noise.
const (
	bigValues = 32
	bigSize   = 128 << 10 // together larger than the caches of one core
	smallKeys = 20000     // more than the caches hold pointers to
	commands  = 200       // on random small keys
)

// churnLua is another script. It works on what all scripts share: the Lua state
// and its garbage. It is sent by EVAL, so it does not count as an EVALSHA.
//
//go:embed cost_churn.lua
var churnLua string

// prepare writes the keys.
func (n *noise) prepare(ctx context.Context) error {
	_, err := n.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range bigValues {
			p.Set(ctx, big(i), strings.Repeat("noise...", bigSize/8), 0)
		}
		for i := range smallKeys {
			p.Set(ctx, small("string", i), "noise", 0)
		}
		return nil
	})
	return err
}

// make does the work once. That takes a few ms.
func (n *noise) make(ctx context.Context) error {
	_, err := n.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range bigValues {
			p.BitCount(ctx, big(i), nil)
		}
		for range commands / 4 {
			i := rand.IntN(smallKeys)
			p.Get(ctx, small("string", i))
			p.HIncrBy(ctx, small("hash", i), "field", 1)
			p.LPush(ctx, small("list", i), i)
			p.ZIncrBy(ctx, small("zset", i), 1, "member")
		}
		p.Eval(ctx, churnLua, nil)
		return nil
	})
	return err
}

// big returns the name of a large string.
func big(i int) string { return fmt.Sprintf("noise:big:%d", i) }

// small returns the name of a small key of a kind.
func small(kind string, i int) string { return fmt.Sprintf("noise:%s:%d", kind, i) }
