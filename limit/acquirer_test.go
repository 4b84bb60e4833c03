package limit_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redisson-go/rratelimiter/limit"
)

// An acquirer notes the calls of its Acquire.
type acquirer struct {
	limit.Limiter
	calls []int64
}

func (a *acquirer) Acquire(_ context.Context, n int64) error {
	a.calls = append(a.calls, n)
	return fmt.Errorf("acquired %d", n)
}

// Shared keeps the Acquire of a limiter, and adds none; Of does the same.
func TestSharedAndOfKeepAcquire(t *testing.T) {
	one := &acquirer{Limiter: limit.Func(func(_ context.Context, n int64) (limit.Result, error) {
		return limit.Result{Allowed: true, Remaining: n}, nil
	})}
	shared, ok := limit.Shared(one).(limit.KeyedAcquirer)
	if !ok {
		t.Fatal("Shared drops Acquire")
	}
	of, ok := limit.Of(shared, "key").(limit.Acquirer)
	if !ok {
		t.Fatal("Of drops Acquire")
	}
	if err := shared.Acquire(t.Context(), "key", 2); err == nil || err.Error() != "acquired 2" {
		t.Error(err)
	}
	if err := of.Acquire(t.Context(), 3); err == nil || err.Error() != "acquired 3" {
		t.Error(err)
	}
	if r, err := of.Allow(t.Context(), 4); r.Remaining != 4 || err != nil || len(one.calls) != 2 {
		t.Error(r, err, one.calls)
	}
	if _, ok := limit.Shared(one.Limiter).(limit.KeyedAcquirer); ok {
		t.Error("Shared invents Acquire")
	}
	if _, ok := limit.Of(limit.Shared(one.Limiter), "key").(limit.Acquirer); ok {
		t.Error("Of invents Acquire")
	}
}
