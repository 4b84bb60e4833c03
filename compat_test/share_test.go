package compat_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/redisson-go/rratelimiter/internal/shares"
)

// TestMain lets the suite work as one of the Go processes that share a limit, or as one
// that is killed while it holds a lock.
func TestMain(m *testing.M) {
	shares.Main()
	holdLock()
	m.Run()
}

// A shareLook is what a look at the shares measures: three scenarios for a
// short time, or with SHARES=long (`make shares`) all of them for longer.
type shareLook struct {
	long      bool
	scenarios []shares.Scenario
	runs      int // of each, side by side
	span      time.Duration
	among     time.Duration // the span for Go processes: longer, as they divide a burst by chance
}

var theShareLook = func() shareLook {
	if os.Getenv("SHARES") == "long" {
		return shareLook{true, shares.Scenarios, 5, 20 * time.Second, 20 * time.Second}
	}
	return shareLook{false, shares.Scenarios[:3], 3, 6 * time.Second, 12 * time.Second}
}()

// looks is how often a spec of shares looks, at most. One good look is enough.
//
// The shares are a property of the library, but what is counted depends on two
// other things as well:
//
//   - The tick of the timer of a Redisson instance is random. So each look has
//     several new instances and judges the median of them.
//   - Another process may take the machine away for a moment. Waiters of both
//     sides are late then, and permits lie idle. So there is another look.
//
// Neither makes a wrong library pass: a side that is too punctual takes nearly
// all, in every look. When Go was too punctual, the median of Java was 0.00 to
// 0.25 of its due (0.17 in the first three scenarios); 0.35 is wanted.
//
// The bound on what is used is the closer one. Punctual Go uses 0.99, even on a
// machine with four times the work that it can do. Four late waiters of Java
// alone use 0.91 to 0.98, so Go cannot be late as well.
const looks = 3

var _ = Describe("Shares of a limit too small for all", func() {
	var entries []TableEntry
	for _, sc := range theShareLook.scenarios {
		entries = append(entries, Entry(sc.String(), NodeTimeout(5*time.Minute), sc))
	}
	const text = "follow the numbers of those who wait in Go and in Java"
	DescribeTable(text, func(ctx SpecContext, sc shares.Scenario) {
		lookAgain(ctx, func(ctx context.Context) (says string, good bool) {
			s, err := shares.Repeat(ctx, peer, sc, theShareLook.span, theShareLook.runs)
			done(err)
			golang, java, used := s.Go(), s.Java(), s.Used()
			says = fmt.Sprintf("got by what was due: Go %.2f (worst %.2f), Java %.2f (%.2f), "+
				"at least %.2f wanted; used %.3f (%.3f), at least %.2f wanted",
				golang.Median, golang.Worst, java.Median, java.Worst, shares.LeastRatio,
				used.Median, used.Worst, shares.LeastUsed)
			fair := min(golang.Median, java.Median) >= shares.LeastRatio
			return says, fair && used.Median >= shares.LeastUsed
		})
	}, entries)

	It("are the same for processes of Go", func(ctx SpecContext) {
		lookAgain(ctx, func(ctx context.Context) (says string, good bool) {
			crowd := shares.Crowd{Limit: shares.Among, Processes: 4, Callers: 4}
			f, err := shares.RepeatProcesses(ctx, crowd, theShareLook.among, theShareLook.runs)
			done(err)
			index, used := f.Index(), f.Used()
			says = fmt.Sprintf("Jain's index %.4f (worst %.4f), at least %.2f wanted; "+
				"used %.3f (%.3f), at least %.2f wanted",
				index.Median, index.Worst, shares.LeastIndex, used.Median, used.Worst, shares.LeastUsed)
			return says, index.Median >= shares.LeastIndex && used.Median >= shares.LeastUsed
		})
	}, NodeTimeout(5*time.Minute))

	if !theShareLook.long { // TestProcessesShareByTheirWaiters shows it in fake time
		return
	}
	DescribeTable("are the same from second to second for crowds in processes of Go",
		func(ctx SpecContext, processes, callers int) {
			lookAgain(ctx, func(ctx context.Context) (says string, good bool) {
				crowd := shares.Crowd{
					Limit:     shares.Limit{Rate: 50, Interval: time.Second},
					Processes: processes, Callers: callers, Timeout: time.Minute,
				}
				all, err := shares.RepeatProcesses(ctx, crowd, theShareLook.among, theShareLook.runs)
				done(err)
				worst, used, empty, longest := all.Worst(), all.Used(), 0, time.Duration(0)
				for _, f := range all {
					empty, longest = empty+f.Empty, max(longest, f.Longest)
				}
				// A caller may have to wait for two intervals, and for two turns of Java.
				const most = 2500 * time.Millisecond
				says = fmt.Sprintf("Jain's index of two seconds at least %.4f (worst %.4f), %.2f wanted; "+
					"used %.3f (%.3f), at least %.2f wanted; %d seconds without a permit, none wanted; "+
					"the longest wait %v, at most %v wanted", worst.Median, worst.Worst, shares.LeastIndex,
					used.Median, used.Worst, shares.LeastUsed, empty, longest, most)
				fair := worst.Median >= shares.LeastIndex && empty == 0 && longest <= most
				return says, fair && used.Median >= shares.LeastUsed
			})
		},
		Entry("3 with 20 callers each", NodeTimeout(5*time.Minute), 3, 20),
		Entry("8 with 4 callers each", NodeTimeout(5*time.Minute), 8, 4),
	)
})

// lookAgain fails if no look is good.
func lookAgain(ctx context.Context, look func(context.Context) (says string, good bool)) {
	GinkgoHelper()
	var all []string
	for range looks {
		says, good := look(ctx)
		AddReportEntry(says)
		if good {
			return
		}
		all = append(all, says)
	}
	Fail(fmt.Sprintf("none of %d looks is good:\n%s", looks, strings.Join(all, "\n")))
}
