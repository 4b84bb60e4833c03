package compare

import (
	"context"
	"errors"
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

// Search plays many sequences, from the seed on, and returns the first that
// fails, or nil.
func (r *Runner) Search(ctx context.Context, seed uint64, many int) (found *Finding, err error) {
	search, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	var next atomic.Uint64 // index of the next sequence
	var first sync.Once
	for n := range min(workers, many) {
		all.Go(func() {
			w := r.worker(n)
			defer w.close()
			for i := next.Add(1) - 1; i < uint64(many) && search.Err() == nil; i = next.Add(1) - 1 {
				steps := sequence(seed + i)
				switch d, failed := w.play(search, steps); {
				case failed != nil:
					first.Do(func() { err = failed })
					end()
				case d != nil:
					first.Do(func() { found = &Finding{Seed: seed + i, Steps: steps, Divergence: d} })
					end()
				}
			}
		})
	}
	all.Wait()
	return found, errors.Join(err, ctx.Err())
}
