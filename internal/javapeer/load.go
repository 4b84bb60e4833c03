package javapeer

import (
	"cmp"
	"context"
	"time"
)

// HammerOptions are the options of Hammer.
type HammerOptions struct {
	Permits  int64         // of one call; 0 is 1
	Threads  int           // 0 is 1
	Duration time.Duration // of each thread
	Timeout  time.Duration // of each call; 0: the method without one
	Pause    time.Duration // after a refused call without a timeout; 0 is 1 ms
	Clients  []string      // instances, one for each thread in turn; empty: that of the limiter
}

func (o HammerOptions) args() args {
	a := loadArgs(o.Permits, o.Threads, o.Clients)
	a["duration"] = o.Duration.Milliseconds()
	setPositive(a, "timeout", o.Timeout.Milliseconds())
	setPositive(a, "pause", o.Pause.Milliseconds())
	return a
}

// Hammer calls tryAcquire from many threads at once. For each grant it returns the
// times before and after the call, by the clock of this machine in whole ms,
// ordered by the first.
func (l *Limiter) Hammer(ctx context.Context, o HammerOptions) (grants [][2]time.Time, err error) {
	got, err := ask[struct{ Grants [][2]int64 }](ctx, l, "hammer", o.args())
	for _, ms := range got.Grants {
		grants = append(grants, [2]time.Time{time.UnixMilli(ms[0]), time.UnixMilli(ms[1])})
	}
	return grants, err
}

// LoopOptions are the options of Loop.
type LoopOptions struct {
	Threads  int // 0 is 1
	Duration time.Duration
	Warmup   time.Duration // before, unmeasured
}

// LoopResult is what Loop measured.
type LoopResult struct {
	Granted   int64
	PerSecond float64 // calls
	P50us     float64 // latencies in µs
	P99us     float64
}

// Loop calls tryAcquire(1) without a timeout from threads in a tight loop, and
// measures how long each call takes.
func (l *Limiter) Loop(ctx context.Context, o LoopOptions) (LoopResult, error) {
	a := loadArgs(1, o.Threads, nil)
	a["duration"] = o.Duration.Milliseconds()
	setPositive(a, "warmup", o.Warmup.Milliseconds())
	return ask[LoopResult](ctx, l, "loop", a)
}

func loadArgs(permits int64, threads int, clients []string) args {
	a := args{"permits": cmp.Or(permits, 1), "threads": cmp.Or(threads, 1)}
	if len(clients) > 0 {
		a["clients"] = clients
	}
	return a
}

func setPositive(a args, name string, value int64) {
	if value > 0 {
		a[name] = value
	}
}
