package formtest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// lends checks Lend and Return of each form, in a bubble.
func (s Suite) lends(t *testing.T) {
	t.Parallel()
	a := s.New(10, time.Hour)
	for name, made := range map[string]func(rdb redis.UniversalClient) (any, error){
		"InMemory":      func(redis.UniversalClient) (any, error) { return a.InMemory() },
		"InMemoryKeyed": func(redis.UniversalClient) (any, error) { return a.InMemoryKeyed() },
		"OnRedis":       func(rdb redis.UniversalClient) (any, error) { return a.OnRedis(rdb, "name") },
		"OnRedisKeyed":  func(rdb redis.UniversalClient) (any, error) { return a.OnRedisKeyed(rdb, "name") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.returned(borrow(t, made))
			})
		})
	}
}

// A borrower takes permits of a limiter of the package form.
type borrower struct {
	*testing.T
	form.Lender
}

func borrow(t *testing.T, made func(rdb redis.UniversalClient) (any, error)) borrower {
	t.Helper()
	l := redistest.Must(made(redistest.MiniClient(t, redistest.Mini(t))))(t)
	lender, ok := l.(form.Lender)
	if !ok {
		t.Fatalf("%T is no Lender", l)
	}
	return borrower{t, lender}
}

func (b borrower) lend(n int64, want bool) form.Answer {
	b.Helper()
	r, a, err := b.Lend(b.Context(), "key", n)
	if err != nil || r.Allowed != want {
		b.Errorf("Lend(%d): %+v, %v; want %v", n, r, err, want)
	}
	return a
}

func (b borrower) back(n int64, a form.Answer) {
	b.Helper()
	if err := b.Return(b.Context(), "key", n, a); err != nil {
		b.Errorf("Return(%d): %v", n, err)
	}
}

// returned expects that what is out comes back, and that what has come back by itself, so
// that others may have it, does not come once more.
func (s Suite) returned(b borrower) {
	b.Helper()
	b.back(10, b.lend(10, true))
	first := b.lend(10, true)
	b.lend(1, false)
	time.Sleep(time.Duration(first.Reset)*time.Microsecond + s.Grain)
	second := b.lend(10, true)
	b.back(10, first)
	b.lend(1, false)
	time.Sleep(time.Minute)
	b.back(10, second)
	b.back(10, b.lend(9, true))
}

// ReturnsInPart expects of a bucket of 10 in an hour, which has filled a little since
// permits were taken, that only the others of them can be given back on Redis.
func ReturnsInPart(t *testing.T, a Algorithm) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := borrow(t, func(rdb redis.UniversalClient) (any, error) { return a.OnRedis(rdb, "name") })
		first := b.lend(4, true) // they are back in 24 minutes
		time.Sleep(12 * time.Minute)
		b.lend(8, true)
		b.back(4, first)
		b.lend(3, false)
		b.lend(2, true)
	})
}
