package compat_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// workers is how many sequences are played at the same time: most of their time
// is pauses.
const workers = 48

// firstSeed is that of the first sequence: COMPARE_SEED, which a failure names,
// or a new one.
func firstSeed() uint64 {
	if text := os.Getenv("COMPARE_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		Expect(err).NotTo(HaveOccurred(), "COMPARE_SEED")
		return seed
	}
	return uint64(rand.Uint32()) << 16
}

// A game plays a sequence with a worker and answers what must not be.
type game func(ctx context.Context, w *worker, steps []step) (*disagreement, error)

// A finding is a sequence that fails.
type finding struct {
	seed  uint64
	steps []step
	*disagreement
}

func (f *finding) String() string {
	return fmt.Sprintf("COMPARE_SEED=%d shows it again; shrunk to\n%s%v", f.seed, script(f.steps), f.disagreement)
}

// search plays many sequences, from the seed on, and answers the first that
// fails, or nil.
func (a *arena) search(ctx context.Context, seed uint64, many int, mixed bool, play game) (*finding, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var next atomic.Uint64
	found, failed := make(chan *finding, workers), make(chan error, workers)
	for n := range min(workers, many) {
		wg.Go(func() {
			w := a.worker(n)
			defer w.close()
			for i := next.Add(1) - 1; i < uint64(many) && ctx.Err() == nil; i = next.Add(1) - 1 {
				f := &finding{seed: seed + i, steps: sequence(seed+i, mixed)}
				var err error
				if f.disagreement, err = play(ctx, w, f.steps); err != nil && ctx.Err() == nil {
					failed <- err
				} else if f.disagreement != nil && ctx.Err() == nil {
					found <- f
				}
				if err != nil || f.disagreement != nil {
					cancel()
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case f := <-found:
		return f, nil
	case err := <-failed:
		return nil, err
	default:
		return nil, ctx.Err()
	}
}

// shrink makes what was found as short as it still fails, by playing it again
// and again, for a minute. As time is real, a sequence may have to be played
// more than once to fail.
func (a *arena) shrink(ctx context.Context, f *finding, play game) *finding {
	w := a.worker(0)
	defer w.close()
	enough := time.Now().Add(time.Minute)
	steps, d := shrink(f.steps, f.disagreement, func(steps []step) *disagreement {
		for range 3 {
			if time.Now().After(enough) {
				break
			}
			if d, err := play(ctx, w, steps); d != nil || err != nil {
				return d
			}
		}
		return nil
	})
	return &finding{f.seed, steps, d}
}

// agree expects that many sequences find nothing.
func (a *arena) agree(ctx context.Context, seed uint64, many int, mixed bool, play game) {
	GinkgoHelper()
	f, err := a.search(ctx, seed, many, mixed, play)
	Expect(err).NotTo(HaveOccurred())
	if f != nil {
		Fail(fmt.Sprintf("as first found, with seed %d:\n%s%v\n\n%v", f.seed, script(f.steps), f.disagreement, a.shrink(ctx, f, play)))
	}
}

func (w *worker) close() { _ = w.client.Close() } // it has nothing to say

// twinGame plays on two names and counts in t.
func twinGame(j judge, t *tally) game {
	return func(ctx context.Context, w *worker, steps []step) (*disagreement, error) {
		st := w.twins()
		defer st.close(context.WithoutCancel(ctx))
		d, err := j.twin(ctx, st, steps, t)
		return d, errors.Join(err, ctx.Err())
	}
}
