package request

import (
	"errors"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// A reply with too few numbers is an error, and no caller gets anything by it.
func TestReplyToOtherRuns(t *testing.T) {
	runs := []Run{{1, 2}, {3, 1}}
	reply, err := redisx.Decode([]any{int64(0), int64(10), int64(5), int64(0), int64(0), int64(1000),
		int64(0), int64(2), int64(0)})
	if err != nil {
		t.Fatal(err)
	}
	a, err := newReply(reply, len(runs))
	if !errors.Is(err, redisx.ErrShape) {
		t.Errorf("2 numbers for 2 runs: %v, want an ErrShape", err)
	}
	if a.judged != nil {
		t.Errorf("%d numbers would be handed out", len(a.judged))
	}
	newSplit(a, runs) // which reads two numbers of each run
}
