package javapeer_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// The threads of a crowd go on after exceptions, until they are stopped.
func TestCrowd(t *testing.T) {
	p, ctx := realPeer(t), soon(t)
	client, _ := connect(t, p, redistest.Start(t).Addr)
	l := p.Limiter(client, "a")
	start := time.Now().Truncate(time.Millisecond)
	crowd, err := l.StartCrowd(ctx, javapeer.CrowdOptions{Threads: 3, Permits: 2, Timeout: time.Millisecond})
	ok(t, "StartCrowd", err)
	collect := func(until func(r javapeer.CrowdResult) bool) (r javapeer.CrowdResult) {
		for r.Errors = map[string]int{}; !until(r); time.Sleep(5 * time.Millisecond) {
			more := redistest.Must(crowd.Drain(ctx))(t)
			r.Grants, r.Calls = append(r.Grants, more.Grants...), r.Calls+more.Calls
			for kind, n := range more.Errors {
				r.Errors[kind] += n
			}
		}
		return r
	}
	// It has no rate.
	r := collect(func(r javapeer.CrowdResult) bool { return r.Errors["RedisException"] >= 5 })
	if len(r.Grants) > 0 {
		t.Errorf("granted without a rate: %v", r.Grants)
	}
	_, err = l.TrySetRate(ctx, javapeer.Overall, 10, time.Hour, 0)
	ok(t, "TrySetRate", err)
	r = collect(func(r javapeer.CrowdResult) bool { return len(r.Grants) == 5 })
	for _, g := range r.Grants {
		if g.Start.Before(start) || g.End.Before(g.Start) || g.Thread < 0 || g.Thread > 2 {
			t.Errorf("%+v", g)
		}
	}
	rest, err := crowd.Stop(ctx)
	if err != nil || len(rest.Grants) > 0 || rest.Stuck > 0 {
		t.Errorf("%+v, %v", rest, err)
	}
	if _, err := crowd.Drain(ctx); err == nil {
		t.Error("it is still there")
	}
}
