package rratelimiter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A bench is what a spec works on: a server, a clock that it sets, and a
// client whose time is that clock.
type bench struct {
	*testing.T
	rdb    *redis.Client // for the client under test
	look   *redis.Client // for looking at the keys, and for what others do
	now    int64         // Unix ms
	client *rratelimiter.Client
}

// onBoth runs a spec on miniredis and on a real redis-server.
func onBoth(t *testing.T, spec func(b *bench)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		m := redistest.Mini(t)
		spec(newBench(t, redistest.MiniClient(t, m), redistest.MiniClient(t, m)))
	})
	t.Run("redis", func(t *testing.T) {
		s := redistest.Start(t)
		spec(newBench(t, s.Client(t), s.Admin()))
	})
}

func newBench(t *testing.T, rdb, look *redis.Client) *bench {
	b := &bench{T: t, rdb: rdb, look: look, now: 1_700_000_000_000}
	b.client = b.newClient()
	return b
}

// newClient returns one more client with the clock of the bench.
func (b *bench) newClient(opts ...rratelimiter.Option) *rratelimiter.Client {
	clock := rratelimiter.WithClock(func() time.Time { return time.UnixMilli(b.now) })
	c := rratelimiter.New(b.rdb, append([]rratelimiter.Option{clock}, opts...)...)
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// limiter returns a limiter with a fresh name and, unless rate is 0, that rate.
func (b *bench) limiter(typ rratelimiter.RateType, rate int64, interval time.Duration,
	opts ...rratelimiter.RateOption) *limiter {
	b.Helper()
	l := &limiter{b.client.RateLimiter(redistest.Name(b)), b}
	if rate > 0 {
		b.want(l.SetRate(b.Context(), typ, rate, interval, opts...))
	}
	return l
}

// want fails the spec on an error.
func (b *bench) want(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) set(key string, value any) {
	b.Helper()
	b.want(b.look.Set(b.Context(), key, value, 0).Err())
}

// A limiter is a RateLimiter with short ways to ask and to look.
type limiter struct {
	*rratelimiter.RateLimiter
	b *bench
}

func (l *limiter) value() string { return "{" + l.Name() + "}:value" }

func (l *limiter) permits() string { return "{" + l.Name() + "}:permits" }

// takes expects permits to be granted.
func (l *limiter) takes(permits int64) {
	l.b.Helper()
	ok, err := l.TryAcquire(l.b.Context(), permits, 0)
	if err != nil || !ok {
		l.b.Fatalf("acquire %d at %d: %v, %v; want true", permits, l.b.now, ok, err)
	}
}

// refused expects permits to be refused, for a time.
func (l *limiter) refused(permits int64, retryAfter time.Duration) {
	l.b.Helper()
	r, err := l.Allow(l.b.Context(), permits)
	if err != nil || r.Allowed || r.RetryAfter != retryAfter {
		l.b.Fatalf("acquire %d at %d: %+v, %v; want refused for %v", permits, l.b.now, r, err, retryAfter)
	}
}

// has expects permits to be available, by Go and in the value string, which
// is not touched.
func (l *limiter) has(permits int64) {
	l.b.Helper()
	n, err := l.AvailablePermits(l.b.Context())
	if err != nil || n != permits {
		l.b.Fatalf("available at %d: %d, %v; want %d", l.b.now, n, err, permits)
	}
}

func (l *limiter) gives(permits int64) {
	l.b.Helper()
	l.b.want(l.Release(l.b.Context(), permits))
}

// keeps expects value + outstanding = rate, as it stands in Redis, under the
// keys of the given pair.
func (l *limiter) keeps(rate int64, value, permits string) {
	l.b.Helper()
	ctx := context.Background()
	left, err := l.b.look.Get(ctx, value).Int64()
	l.b.want(err)
	sum := left
	for _, n := range l.records(permits) {
		sum += n
	}
	if sum != rate {
		l.b.Fatalf("at %d: value %d, records %v: together %d, want %d", l.b.now, left, l.records(permits),
			sum, rate)
	}
}

// records returns the permits of each record, oldest first.
func (l *limiter) records(permits string) []int64 {
	l.b.Helper()
	members, err := l.b.look.ZRange(context.Background(), permits, 0, -1).Result()
	l.b.want(err)
	held := make([]int64, 0, len(members))
	for _, m := range members {
		n, err := wire.Permits(m)
		l.b.want(err)
		held = append(held, n)
	}
	return held
}

// record adds a record as Java would write it.
func (l *limiter) record(at int64, member string) {
	l.b.Helper()
	l.b.want(l.b.look.ZAdd(context.Background(), l.permits(),
		redis.Z{Score: float64(at), Member: member}).Err())
}

// dump is all that Redis holds of a limiter, with whether a key has a TTL.
func (l *limiter) dump() string {
	b := l.b
	ctx := b.Context()
	s := fmt.Sprint(b.look.HGetAll(ctx, l.Name()).Val(), b.look.Get(ctx, l.value()).Val(),
		b.look.ZRangeWithScores(ctx, l.permits(), 0, -1).Val())
	for _, key := range []string{l.Name(), l.value(), l.permits()} {
		s += fmt.Sprint(" ", b.look.PTTL(ctx, key).Val() > 0)
	}
	return s
}

// crowd adds so many records of n permits each, as Java would write them: some
// each ms, from a time on.
func (l *limiter) fill(from int64, perMs, records int, n byte) {
	l.b.Helper()
	for i := 0; i < records; i += 1000 {
		var z []redis.Z
		for j := i; j < min(i+1000, records); j++ {
			z = append(z, redis.Z{Score: float64(from + int64(j/perMs)),
				Member: fmt.Sprintf("\x10%08d%08d%c\x00\x00\x00", from%1e8, j, n)})
		}
		l.b.want(l.b.look.ZAdd(context.Background(), l.permits(), z...).Err())
	}
}

func (l *limiter) size() int64 { return l.b.look.ZCard(context.Background(), l.permits()).Val() }

// The versions of Redisson since which records have a format (WithRedisson).
const (
	bc0I16 = "3.21.0"
	bc0I8  = "3.17.0"
	lc0I   = "3.16.4"
	fI     = "3.13.3"
)

// formats are those of records: the version since which Redisson writes them, what their bytes
// begin with, and how many there are.
var formats = []struct {
	since  string
	header string
	size   int
}{
	{bc0I16, "\x10", 21},
	{bc0I8, "\x08", 13},
	{lc0I, "\x08\x00\x00\x00\x00\x00\x00\x00", 20},
	{fI, "\x03", 8},
}

// inFormat is the limiter as another Client sees it, one that writes records for a Redisson of
// some version.
func (l *limiter) inFormat(version string, opts ...rratelimiter.Option) *limiter {
	c := l.b.newClient(append(opts, rratelimiter.WithRedisson(version))...)
	return &limiter{c.RateLimiter(l.Name()), l.b}
}

// members returns the records to the byte.
func (l *limiter) members() []string {
	l.b.Helper()
	members, err := l.b.look.ZRange(context.Background(), l.permits(), 0, -1).Result()
	l.b.want(err)
	return members
}

// java are records of each format as Redisson wrote them, taken from real ones.
var java = []struct {
	member  string
	permits int64
}{
	{"\x00\x00\x80\x3f\x02\x00\x00\x00", 2},
	{"\x88\x10\x89\xdd\x05\x00\x00\x00", 5},
	{"\x08\x00\x00\x00\x00\x00\x00\x00abcdefgh\x03\x00\x00\x00", 3},
	{"\x08abcdefgh\x04\x00\x00\x00", 4},
	{"\x10abcdefghijklmnop\x01\x00\x00\x00", 1},
}

func sum(all []int64) (n int64) {
	for _, one := range all {
		n += one
	}
	return n
}

// coarse is a limiter as one more Client sees it, with a resolution.
func (l *limiter) coarse(d time.Duration, opts ...rratelimiter.Option) *limiter {
	c := l.b.newClient(append(opts, rratelimiter.WithResolution(d))...)
	return &limiter{c.RateLimiter(l.Name()), l.b}
}

// fields returns the fields of the hash that are not the configuration's.
func (l *limiter) fields() (others []string) {
	l.b.Helper()
	all, err := l.b.look.HKeys(context.Background(), l.Name()).Result()
	l.b.want(err)
	for _, field := range all {
		switch field {
		case "rate", "interval", "type", "keepAliveTime":
		default:
			others = append(others, field)
		}
	}
	return others
}

// by is the limiter as another Client, or another RateLimiter, sees it.
func (l *limiter) by(c *rratelimiter.Client) *limiter {
	return &limiter{c.RateLimiter(l.Name()), l.b}
}

// eachFormat runs a spec on miniredis and on a real redis-server, with requests
// that leave their records, and with a resolution.
func eachFormat(t *testing.T, spec func(b *bench, opts ...rratelimiter.Option)) {
	t.Helper()
	t.Run("default", func(t *testing.T) { onBoth(t, func(b *bench) { spec(b) }) })
	t.Run("resolution", func(t *testing.T) {
		onBoth(t, func(b *bench) { spec(b, rratelimiter.WithResolution(10*time.Millisecond)) })
	})
}

// asksFor returns what asks for permits without waiting.
func (l *limiter) asksFor(permits int64) func() error {
	return func() error { return yes(l.TryAcquire(context.Background(), permits, 0)) }
}

// givesBack returns what gives permits back.
func (l *limiter) givesBack(permits int64) func() error {
	return func() error { return l.Release(context.Background(), permits) }
}

// endsAt expects a point in time, the zero Time for never; on servers before
// Redis 7.0, which do not tell, an error that says so.
func (l *limiter) endsAt(want time.Time) {
	l.b.Helper()
	got, err := l.ExpireTime(l.b.Context())
	if l.b.look.PExpireTime(l.b.Context(), l.Name()).Err() != nil {
		if err == nil || !strings.Contains(err.Error(), "needs Redis 7.0") {
			l.b.Fatalf("ExpireTime %v, %v; want an error", got, err)
		}
		return
	}
	if err != nil || got.IsZero() != want.IsZero() || got.Sub(want).Abs() > 2*time.Millisecond {
		l.b.Fatalf("ExpireTime %v, %v; want %v", got, err, want)
	}
}
