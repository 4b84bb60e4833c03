package compare

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

// FirstSeed returns the seed of the first sequence: COMPARE_SEED, which a
// failure names, or a new one.
func FirstSeed() (uint64, error) {
	if text := os.Getenv("COMPARE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("compare: COMPARE_SEED: %w", err)
		}
		return seed, nil
	}
	return uint64(rand.Uint32()) << 16, nil
}

// A Finding is a sequence that fails.
type Finding struct {
	Seed  uint64
	Steps []Step
	*Divergence
}

// String returns the sequence, how to play it again, and its divergence.
func (f *Finding) String() string {
	return fmt.Sprintf("COMPARE_SEED=%d shows it again:\n%v%v", f.Seed, list(f.Steps), f.Divergence)
}

// Play plays one sequence and returns its divergence, or nil.
func (r *Runner) Play(ctx context.Context, steps []Step) (*Divergence, error) {
	w := r.worker(0)
	defer w.close()
	return w.play(ctx, steps)
}

// Search plays many sequences, from the seed on, and returns the first that
// fails, or nil.
func (r *Runner) Search(ctx context.Context, seed uint64, many int) (*Finding, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var next atomic.Uint64 // index of the next sequence
	found, failed := make(chan *Finding, workers), make(chan error, workers)
	for n := range min(workers, many) {
		all.Go(func() {
			w := r.worker(n)
			defer w.close()
			for i := next.Add(1) - 1; i < uint64(many) && ctx.Err() == nil; i = next.Add(1) - 1 {
				f := &Finding{Seed: seed + i, Steps: sequence(seed + i)}
				d, err := w.play(ctx, f.Steps)
				if d == nil && err == nil {
					continue
				}
				if f.Divergence = d; ctx.Err() == nil { // else another one was first
					if err != nil {
						failed <- err
					} else {
						found <- f
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
	select {
	case f := <-found:
		return f, nil
	case err := <-failed:
		return nil, err
	default:
		return nil, ctx.Err()
	}
}
