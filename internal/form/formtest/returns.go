package formtest

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/form"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// released checks Release of each form without keys.
func (s Suite) released(t *testing.T) {
	t.Parallel()
	EachForm(t, s.New(10, time.Hour), releasesOnce)
}

// releasesOnce expects that released permits can be taken again, once.
func releasesOnce(t *testing.T, l limit.Releaser) {
	t.Helper()
	has := func(n int64, want bool) { t.Helper(); Allow(t, l, n, want) }
	back := func(n int64) { redistest.NoError(t, l.Release(t.Context(), n)) }
	back(3) // of nothing
	has(10, true)
	has(1, false)
	back(10)
	has(10, true)
	time.Sleep(time.Minute)
	back(10)
	back(10) // once more than taken
	has(10, true)
	has(1, false)
	for _, n := range []int64{0, -1, math.MinInt64} {
		Fails(t, limit.ErrInvalidArgument, l.Release(t.Context(), n))
	}
	has(1, false)
}

// looked checks Peek of each form.
func (s Suite) looked(t *testing.T) {
	t.Parallel()
	s.each(t, func(t *testing.T, l any) {
		if r := peek(t, l); !r.Allowed || r.Remaining != 10 || r.ResetAfter != 0 {
			t.Errorf("an unused limiter shows %+v", r)
		}
		Borrow(t, l).Take(10, true)
		for range 10 {
			if r := peek(t, l); r.Allowed || r.Remaining != 0 || r.RetryAfter == 0 {
				t.Errorf("with none left: %+v", r)
			}
		}
		time.Sleep(peek(t, l).RetryAfter)
		if r := peek(t, l); !r.Allowed || r.Remaining == 0 {
			t.Errorf("after RetryAfter: %+v", r)
		}
		Borrow(t, l).Take(1, true)
	})
}

// peek calls Peek of a form.
func peek(t *testing.T, l any) limit.Result {
	t.Helper()
	switch l := l.(type) {
	case limit.Peeker:
		return redistest.Must(l.Peek(t.Context()))(t)
	case limit.KeyedPeeker:
		return redistest.Must(l.Peek(t.Context(), "key"))(t)
	}
	t.Fatalf("%T is no Peeker", l)
	return limit.Result{}
}

// returned checks Lend and Return of each form.
func (s Suite) returned(t *testing.T) {
	t.Parallel()
	s.each(t, func(t *testing.T, l any) { s.returnsOnce(Borrow(t, l)) })
}

// each runs a check of each form of a limiter of 10 in an hour, in a bubble.
func (s Suite) each(t *testing.T, check func(t *testing.T, l any)) {
	t.Helper()
	a := s.New(10, time.Hour)
	for name, of := range map[string]func(rdb redis.UniversalClient) (any, error){
		"InMemory":      func(redis.UniversalClient) (any, error) { return a.InMemory() },
		"InMemoryKeyed": func(redis.UniversalClient) (any, error) { return a.InMemoryKeyed() },
		"OnRedis":       func(rdb redis.UniversalClient) (any, error) { return a.OnRedis(rdb, "name") },
		"OnRedisKeyed":  func(rdb redis.UniversalClient) (any, error) { return a.OnRedisKeyed(rdb, "name") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check(t, redistest.Must(of(NewMini(t).Client))(t)) })
		})
	}
}

// A Borrower takes permits of a form, and returns them.
type Borrower struct {
	*testing.T
	form.Lender
}

// Borrow returns the Borrower of a limiter.
func Borrow(t *testing.T, limiter any) Borrower {
	t.Helper()
	lender, ok := limiter.(form.Lender)
	if !ok {
		t.Fatalf("%T is no Lender", limiter)
	}
	return Borrower{t, lender}
}

// Take expects that n permits are granted, or not.
func (b Borrower) Take(n int64, want bool) form.Decision {
	b.Helper()
	r, d, err := b.Lend(b.Context(), "key", n)
	if err != nil || r.Allowed != want {
		b.Errorf("Lend(%d): %+v, %v; want %v", n, r, err, want)
	}
	return d
}

// Back returns n permits of a grant.
func (b Borrower) Back(n int64, d form.Decision) {
	b.Helper()
	redistest.NoError(b, b.Return(b.Context(), "key", n, d))
}

// returnsOnce expects that Return gives back permits that are out, and not those that have come back
// with time, which other callers may have.
func (s Suite) returnsOnce(b Borrower) {
	b.Helper()
	b.Back(10, b.Take(10, true))
	first := b.Take(10, true)
	b.Take(1, false)
	time.Sleep(time.Duration(first.Reset)*time.Microsecond + s.Grain)
	second := b.Take(10, true)
	b.Back(10, first)
	b.Take(1, false)
	time.Sleep(time.Minute)
	b.Back(10, second)
	b.Back(10, b.Take(9, true))
}

// ReturnsInPart expects of a bucket of 10 in an hour that Return leaves out the part of a grant that has
// come back with time.
func ReturnsInPart(t *testing.T, a Algorithm) {
	t.Helper()
	EachForm(t, a, func(t *testing.T, l limit.Releaser) {
		b := Borrow(t, l)
		first := b.Take(4, true) // they are back in 24 minutes
		time.Sleep(12 * time.Minute)
		b.Take(8, true)
		b.Back(4, first)
		b.Take(3, false)
		b.Take(2, true)
	})
}
