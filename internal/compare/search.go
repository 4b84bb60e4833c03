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
	"time"
)

const (
	// shrinkTime bounds how long a sequence is shrunk: long enough for most, short
	// enough to wait for.
	shrinkTime = time.Minute
	// shrinkTries is how often a smaller sequence is played. Time is real, so a
	// sequence may not fail every time.
	shrinkTries = 3
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

// Runs is a kind of run: how a sequence is made, played and checked.
type Runs struct {
	shared bool
	play   func(ctx context.Context, w *worker, steps []Step) (*Divergence, error)
}

// SeparateRuns returns runs on two names, which t counts.
func SeparateRuns(t *Tally) Runs {
	return Runs{play: func(ctx context.Context, w *worker, steps []Step) (*Divergence, error) {
		l := w.twoLimiters()
		defer l.close(context.WithoutCancel(ctx))
		d, err := standard.separate(ctx, l, steps, t)
		return d, errors.Join(err, ctx.Err())
	}}
}

// SharedRuns returns runs on one name, which t counts.
func SharedRuns(t *Tally) Runs {
	return Runs{shared: true, play: func(ctx context.Context, w *worker, steps []Step) (*Divergence, error) {
		l := w.sharedLimiter()
		defer l.close(context.WithoutCancel(ctx))
		return standard.shared(ctx, l, steps, t)
	}}
}

// Spoiled returns runs in which something is wrong on purpose with a side.
func (r Runs) Spoiled(spoil func(s *Sides)) Runs {
	play := r.play
	r.play = func(ctx context.Context, w *worker, steps []Step) (*Divergence, error) {
		spoiled := *w
		spoil(&spoiled.Sides)
		return play(ctx, &spoiled, steps)
	}
	return r
}

// A Finding is a sequence that fails.
type Finding struct {
	Seed  uint64
	Steps []Step
	*Divergence
}

// String returns the sequence and its divergence.
func (f *Finding) String() string { return list(f.Steps) + f.Divergence.String() }

// Play plays one sequence and returns its divergence, or nil.
func (r *Runner) Play(ctx context.Context, runs Runs, steps []Step) (*Divergence, error) {
	w := r.worker(0)
	defer w.close()
	return runs.play(ctx, w, steps)
}

// Search plays many sequences, from the seed on, and returns the first that
// fails, or nil.
func (r *Runner) Search(ctx context.Context, runs Runs, seed uint64, many int) (*Finding, error) {
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
				f := &Finding{Seed: seed + i, Steps: sequence(seed+i, runs.shared)}
				d, err := runs.play(ctx, w, f.Steps)
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

// Shrink makes a sequence as short as it still fails, by playing it again and
// again, for a minute.
func (r *Runner) Shrink(ctx context.Context, runs Runs, f *Finding) *Finding {
	w := r.worker(0)
	defer w.close()
	end := time.Now().Add(shrinkTime)
	steps, d := shrink(f.Steps, f.Divergence, func(steps []Step) *Divergence {
		for range shrinkTries {
			if time.Now().After(end) {
				break
			}
			if d, err := runs.play(ctx, w, steps); d != nil || err != nil {
				return d
			}
		}
		return nil
	})
	return &Finding{f.Seed, steps, d}
}

// Report returns what to print of a finding: as it was found, and shrunk.
func (r *Runner) Report(ctx context.Context, runs Runs, f *Finding) string {
	return fmt.Sprintf("as first found, with seed %d:\n%v\n\nCOMPARE_SEED=%d shows it again; shrunk to\n%v",
		f.Seed, f, f.Seed, r.Shrink(ctx, runs, f))
}
