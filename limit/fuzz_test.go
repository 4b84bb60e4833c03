package limit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redisson-go/rratelimiter/internal/form/formtest"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
)

// Each input is the traffic of one limiter of each algorithm: its limit, and then calls,
// time that passes, and clocks that are set. Memory and Redis decide alike, and no window of
// real time has more than the bound.
func FuzzForms(f *testing.F) {
	f.Add([]byte("\x05\x02" + "\x00\x00\x01\x01\x04\x20\x00\x02\x05\x30\x00\x04\x03\x01\x00\x00"))
	f.Add([]byte("\x01\x00" + "\x00\x00\x06\x10\x00\x00\x07\x20\x00\x00\x07\x80\x01\x00\x05\xff\x00\x00"))
	f.Add([]byte("\x63\x01" + "\x00\x60\x04\x01\x00\x10\x03\x20\x06\xff\x02\x01\x05\x02\x00\x60"))
	m := redistest.Mini(f)
	rdb := redistest.MiniClient(f, m)
	f.Fuzz(func(t *testing.T, traffic []byte) {
		if len(traffic) < 2 || len(traffic) > 400 {
			return
		}
		rate := 1 + int64(traffic[0])
		interval := []time.Duration{5 * time.Millisecond, time.Second, time.Hour}[traffic[1]%3]
		for _, a := range algorithms {
			m.FlushAll()
			d := &drive{t: t, a: a, m: m, rate: rate, interval: interval}
			d.set()
			d.memory = redistest.Must(a.of(rate, interval).InMemory(limit.WithClock(d.now)))(t)
			d.shared = redistest.Must(a.of(rate, interval).OnRedis(rdb, "name"))(t)
			for rest := traffic[2:]; len(rest) >= 2; rest = rest[2:] {
				d.step(rest[0], int64(rest[1]))
			}
			if err := formtest.Exceeded(d.grants, d.more, interval, a.worst*rate); err != nil {
				t.Errorf("%s, %d in %v: %v", a.name, rate, interval, err)
			}
			if t.Failed() {
				return
			}
		}
	})
}

// A drive is both forms of a limiter, and what they have granted.
type drive struct {
	t              *testing.T
	a              algorithm
	m              *miniredis.Miniredis
	memory, shared limit.Releaser
	rate           int64
	interval       time.Duration
	real, off      time.Duration // real time, and what the clocks are ahead of it
	last           limit.Result
	grants         []formtest.Grant

	// What may be granted beyond the bound: given back, or the clock set forward.
	more []formtest.Grant
}

// now is not near a score that miniredis writes without a point, as 2e+15: its Lua cannot
// read that.
func (d *drive) now() time.Time { return time.Unix(1_900_000_001, 0).Add(d.real + d.off) }

// set has miniredis go by the clock. A key of Redis ends at a time of the clock. That of
// miniredis does so only if the clock is not set back.
func (d *drive) set() { d.m.SetTime(d.now()) }

func (d *drive) step(what byte, arg int64) {
	n := 1 + arg%d.rate
	part := (d.interval * time.Duration(arg) / 256).Truncate(d.a.grain)
	switch what % 8 {
	case 0, 1, 2:
		d.allow(n)
	case 3:
		one, other := d.memory.Release(d.t.Context(), n), d.shared.Release(d.t.Context(), n)
		if one != nil || other != nil {
			d.t.Errorf("%s: Release(%d): in memory %v, on Redis %v", d.a.name, n, one, other)
		}
		d.more = append(d.more, formtest.Grant{At: d.real, N: n})
	case 4:
		d.real += d.a.grain * time.Duration(arg)
	case 5:
		d.real += 2 * part
	case 6:
		d.real += []time.Duration{d.last.RetryAfter, d.last.ResetAfter}[arg%2]
	case 7:
		d.stepClock(part*8, arg)
		return
	}
	d.set()
}

// stepClock sets the clock, back or forward.
func (d *drive) stepClock(by time.Duration, arg int64) {
	if arg%2 == 0 {
		d.off += by
		d.more = append(d.more, formtest.Grant{At: d.real, N: d.rate})
		d.set()
		return
	}
	d.off -= by
	d.set()
	for _, key := range d.m.Keys() {
		d.m.SetTTL(key, d.m.TTL(key)+by)
	}
}

func (d *drive) allow(n int64) {
	one := redistest.Must(d.memory.Allow(d.t.Context(), n))(d.t)
	other := redistest.Must(d.shared.Allow(d.t.Context(), n))(d.t)
	d.last, other.Name = one, one.Name
	type numbers limit.Result // without its String, which leaves some out
	if want, got := fmt.Sprintf("%+v", numbers(one)), fmt.Sprintf("%+v", numbers(other)); want != got {
		d.t.Errorf("%s, %d in %v, at %v, clock %v ahead: Allow(%d):\nin memory %s\non Redis  %s\n%s",
			d.a.name, d.rate, d.interval, d.real, d.off, n, want, got, d.m.Dump())
	}
	if one.Allowed {
		d.grants = append(d.grants, formtest.Grant{At: d.real, N: n})
	}
}
