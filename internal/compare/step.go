package compare

import (
	"fmt"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// An Operation is what one step does with a limiter.
type Operation string

// The operations are called as in Java. Lose is none of either side: something
// goes missing, by an eviction or an older client.
const (
	TrySetRate       Operation = "trySetRate"
	SetRate          Operation = "setRate"
	UpdateRate       Operation = "updateRate"
	TryAcquire       Operation = "tryAcquire"
	AvailablePermits Operation = "availablePermits"
	Release          Operation = "release"
	GetConfig        Operation = "getConfig"
	IsExists         Operation = "isExists"
	Delete           Operation = "delete"
	Expire           Operation = "expire"
	ClearExpire      Operation = "clearExpire"
	RemainTimeToLive Operation = "remainTimeToLive"
	Lose             Operation = "lose"
)

// A Step is one operation with its arguments. Arguments that the operation does
// not take are zero.
type Step struct {
	Op        Operation
	Limit     rratelimiter.Config
	KeepState bool
	Permits   int64
	TTL       time.Duration
	Lost      string        // hash, value, permits, interval or keepAliveTime
	Pause     time.Duration // before the step

	// Patience is for separate runs. If a fault of Java shows at this step,
	// Java goes on with its own state for so many steps; then it gets Go's.
	Patience int
	// Java is for shared runs: the step is Java's, not Go's.
	Java bool
}

// setsRate reports whether the step is one of the three that set a rate.
func (s Step) setsRate() bool { return s.Op == TrySetRate || s.Op == SetRate || s.Op == UpdateRate }

// keepsRecords reports whether the step sets a rate and keeps the permits that
// are taken.
func (s Step) keepsRecords() bool { return (s.Op == SetRate || s.Op == UpdateRate) && s.KeepState }

// String returns the step as a call: after 20ms Java: tryAcquire(3).
func (s Step) String() string {
	text := fmt.Sprintf("%s(%s)", s.Op, s.arguments())
	if s.Java {
		text = "Java: " + text
	}
	if s.Pause > 0 {
		text = fmt.Sprintf("after %v %s", s.Pause, text)
	}
	return text
}

func (s Step) arguments() string {
	switch s.Op {
	case TrySetRate, SetRate, UpdateRate:
		text := fmt.Sprintf("%v, %d, %v", s.Limit.Type, s.Limit.Rate, s.Limit.Interval)
		if s.Limit.KeepAlive != 0 {
			text += fmt.Sprintf(", keepAlive %v", s.Limit.KeepAlive)
		}
		if s.KeepState {
			text += ", keepState"
		}
		return text
	case TryAcquire, Release:
		return fmt.Sprint(s.Permits)
	case Expire:
		return s.TTL.String()
	case Lose:
		return s.Lost
	}
	return ""
}

// list returns a sequence as text, one step a line.
func list(steps []Step) string {
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "%3d. %v\n", i+1, s)
	}
	return b.String()
}
