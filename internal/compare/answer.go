package compare

import (
	"context"
	"fmt"
	"strconv"
)

// An answer is the reply to a step, in one form for both languages: a result,
// or the kind of error.
type answer struct{ result, err string }

// answered returns the answer of a method that returned a result and an error.
func answered(result any, err error) answer {
	if err == nil {
		return answer{result: fmt.Sprint(result)}
	}
	return answer{err: ErrorKind(err)}
}

func yes(b bool) answer { return answer{result: strconv.FormatBool(b)} }

// on does the step on a limiter.
func (s Step) on(ctx context.Context, l Limiter) answer {
	switch s.Op {
	case TrySetRate:
		return answered(l.TrySetRate(ctx, s.Limit))
	case SetRate:
		return answered("", l.SetRate(ctx, s.Limit, s.KeepState))
	case UpdateRate:
		return answered(l.UpdateRate(ctx, s.Limit, s.KeepState))
	case TryAcquire:
		return answered(l.TryAcquire(ctx, s.Permits, 0))
	case AvailablePermits:
		return answered(l.AvailablePermits(ctx))
	case Release:
		return answered("", l.Release(ctx, s.Permits))
	case Delete:
		return answered(l.Delete(ctx))
	case Expire:
		return answered(l.Expire(ctx, s.TTL))
	case ClearExpire:
		return answered(l.ClearExpire(ctx))
	}
	panic("no such operation: " + s.Op)
}
