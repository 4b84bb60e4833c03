package main

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/redis/go-redis/v9"
)

// noise is work that puts a limiter's keys, script and Redis' own code for them
// out of the caches of the processor, as a server does that has more to do than
// to limit.
type noise struct{ rdb *redis.Client }

const (
	bigValues = 32
	bigSize   = 128 << 10 // together more than the caches that a core has to itself
	smallKeys = 20000
	commands  = 200 // on some of the small keys
)

// churnLua is another script, which works on what all scripts share: the Lua
// state and its garbage. EVAL runs it, so it does not count as an EVALSHA.
//
//go:embed churn.lua
var churnLua string

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

// make does the work once, which takes a few ms.
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

func big(i int) string { return fmt.Sprintf("noise:big:%d", i) }

func small(kind string, i int) string { return fmt.Sprintf("noise:%s:%d", kind, i) }
