package compare

import (
	"fmt"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter"
)

// An Operation is what one step does with a limiter.
type Operation string

// The operations are called as in Java.
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
)

// A Step is one operation with its arguments. Arguments that the operation does
// not take are zero.
type Step struct {
	Op        Operation
	Limit     rratelimiter.Config
	KeepState bool
	Permits   int64
	TTL       time.Duration
	Pause     time.Duration // before the step
	Java      bool          // the step is Java's, not Go's
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
