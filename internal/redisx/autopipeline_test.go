package redisx

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// pipelined is a client as the docs show it: scripts go through the AutoPipeliner, and all
// else is the client's own.
type pipelined struct {
	*redis.Client
	auto *redis.AutoPipeliner
}

// Process sends a command together with those of other callers.
func (p pipelined) Process(ctx context.Context, cmd redis.Cmder) error {
	return p.auto.Process(ctx, cmd)
}

// throughPipelines runs a test with each kind of AutoPipeliner, alone and embedded.
func throughPipelines(t *testing.T, test func(t *testing.T, p *path)) {
	t.Helper()
	for name, made := range map[string]func(*redis.Client) (*redis.AutoPipeliner, error){
		"blocking": (*redis.Client).AutoPipeline,
		"deferred": (*redis.Client).AsyncAutoPipeline,
		"full duplex": func(rdb *redis.Client) (*redis.AutoPipeliner, error) {
			return rdb.AutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true})
		},
	} {
		for _, embedded := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", embedded"}[embedded], func(t *testing.T) {
				p := newPath(t)
				rdb, ok := p.runner.rdb.(*redis.Client)
				if !ok {
					t.Fatalf("%T", p.runner.rdb)
				}
				auto, err := made(rdb)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = auto.Close() })
				if p.runner = NewRunner(auto); embedded {
					p.runner = NewRunner(pipelined{rdb, auto})
				}
				if p.runner.Known() != embedded {
					t.Errorf("known %v, want %v", p.runner.Known(), embedded)
				}
				test(t, p)
			})
		}
	}
}

// eachWay runs a test with a client, and with each kind of AutoPipeliner.
func eachWay(t *testing.T, test func(t *testing.T, p *path)) {
	t.Helper()
	t.Run("client", func(t *testing.T) { test(t, newPath(t)) })
	throughPipelines(t, test)
}

// A lost reply is an error of all who were in the pipeline, and none of them is sent again.
func TestALostReplyOfAPipeline(t *testing.T) {
	throughPipelines(t, func(t *testing.T, p *path) {
		const callers = 20
		call := counts(false)
		p.knows(call.Script)
		p.proxy.SwallowReply(1)
		var mu sync.Mutex // guards failed
		var failed int64
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				own := *call
				_, unsure, err := p.runner.Run(t.Context(), &own)
				if unsure != (err != nil) || err != nil && !errors.Is(err, io.EOF) {
					t.Errorf("unsure %v, %v; want the end of the connection", unsure, err)
				}
				if err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		n, err := p.server.Admin().Get(t.Context(), "n").Int64()
		if err != nil || failed == 0 || n < callers-failed || n > callers {
			t.Errorf("%d of %d failed, carried out %d times, %v", failed, callers, n, err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.sent) > callers {
			t.Errorf("sent %d times by %d callers", len(p.sent), callers)
		}
	})
}

// An answer of Redis goes to its own caller only.
func TestAnErrorInAPipeline(t *testing.T) {
	throughPipelines(t, func(t *testing.T, p *path) {
		bad, good := &Call{Script: script("return redis.error_reply('NO reason')", true)}, counts(true)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				own := *bad
				_, unsure, err := p.runner.Run(t.Context(), &own)
				if unsure || !redis.HasErrorPrefix(err, "NO") {
					t.Errorf("unsure %v, %v; want the error of the script", unsure, err)
				}
			})
			wg.Go(func() {
				own := *good
				if _, unsure, err := p.runner.Run(t.Context(), &own); unsure || err != nil {
					t.Errorf("unsure %v, %v", unsure, err)
				}
			})
		}
		wg.Wait()
		p.count(20)
	})
}
