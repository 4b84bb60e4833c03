package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Permits of a caller that has left are withdrawn, in each format. Another reservation stays: one of the same
// ms, an older one, and one of the same name if the format has few random bytes.
func TestAWithdrawalTakesNoOtherReservation(t *testing.T) {
	const rate = 1 << 40
	for format := range wire.Layouts {
		for _, tc := range []struct {
			name       string
			left       int64 // permits of the reservation that is withdrawn; 0 for permits that are acquired
			resolution time.Duration
			later      int64 // ms after the other reservation
			lost       bool  // the record of what is withdrawn
		}{
			{name: "one record", left: 5},
			{name: "one record, which is gone", left: 5, lost: true},
			{name: "several records", left: 1<<33 + 5, later: 1},
			{name: "several records in the same ms", left: 1<<33 + 5},
			{name: "a record of a slot", resolution: 10 * time.Millisecond},
			{name: "a record of a slot, which is gone", resolution: 10 * time.Millisecond, lost: true},
			{name: "an acquire, which is gone", lost: true, later: 1},
		} {
			t.Run(fmt.Sprint(wire.Layouts[format].Name, " ", tc.name), func(t *testing.T) {
				rdb, now := redistest.MiniClient(t, redistest.Mini(t)), int64(theTime)
				e := newEngine(t, rdb, withClock(&now), func(c *Config) {
					c.Plain, c.Resolution = &wire.Layouts[format], tc.resolution
				})
				l, records := e.limiter("l"), keysOfL[2]
				setRate(t, l, wire.Overall, rate, time.Hour)
				reserves := func(permits int64) *groupCall {
					call := newGroupCall(e.Group(l), []int64{permits}, Want{Permits: permits, Reserve: true})
					if err := once(call)(false); err != nil {
						t.Fatal(err)
					}
					return call
				}
				other := reserves(5)
				now += tc.later
				was := rdb.ZRange(t.Context(), records, 0, -1).Val()
				var back *request
				if tc.left > 0 {
					call := reserves(tc.left)
					back = newRelease(l, 0,
						&withdrawal{after: call.number - 1, kept: keptAll, since: time.Now()})
					back.session, back.records = call.session, call.reserved[0]
				} else {
					take := newAcquire(l, []run{{5, 1}}, nil)
					if _, err := take.send(t.Context()); err != nil {
						t.Fatal(err)
					}
					back = newRelease(l, 0, of(take))
				}
				if tc.lost {
					for _, member := range rdb.ZRange(t.Context(), records, 0, -1).Val() {
						if !slices.Contains(was, member) {
							rdb.ZRem(t.Context(), records, member)
						}
					}
				}
				if _, err := back.send(t.Context()); err != nil {
					t.Fatal(err)
				}
				if is := rdb.ZRange(t.Context(), records, 0, -1).Val(); !slices.Equal(is, was) {
					t.Errorf("% x, want what was there before: % x", is, was)
				}
				part := Part{Records: other.result()[0].Records, Reserved: 5}
				if _, err := e.Group(l).Settlement([]Part{part}).Settle(t.Context(), false); err != nil {
					t.Fatal(err)
				}
				if n := rdb.ZCard(t.Context(), records).Val(); n > 0 {
					t.Errorf("%d records after the reservation was settled", n)
				}
			})
		}
	}
}

// A reservation whose name is taken gets another one, in each format, and each is settled by itself.
func TestReservationsOfOneNameGetTwo(t *testing.T) {
	for format := range wire.Layouts {
		for _, limiters := range []int{1, 2} {
			rdb, now := redistest.MiniClient(t, redistest.Mini(t)), int64(theTime)
			e := newEngine(t, rdb, withClock(&now), func(c *Config) { c.Plain = &wire.Layouts[format] })
			var members []*Limiter
			for i := range limiters {
				l := e.limiter(fmt.Sprint("l", i))
				setRate(t, l, wire.Overall, 100, time.Hour)
				members = append(members, l)
			}
			g, permits := e.Group(members...), slices.Repeat([]int64{5}, limiters)
			var calls []*groupCall
			for range 3 {
				call := newGroupCall(g, permits, Want{Permits: 5, Reserve: true})
				if len(calls) > 0 {
					call.reserved = slices.Clone(calls[0].reserved)
				}
				if err := once(call)(false); err != nil {
					t.Fatal(err)
				}
				calls = append(calls, call)
			}
			for i, call := range calls {
				var parts []Part
				for _, r := range call.result() {
					parts = append(parts, Part{Records: r.Records, Reserved: 5, Used: [...]int64{1, 2, 6}[i]})
				}
				if _, err := g.Settlement(parts).Settle(t.Context(), false); err != nil {
					t.Fatal(err)
				}
			}
			for i := range members {
				if left := rdb.Get(t.Context(), fmt.Sprintf("{l%d}:value", i)).Val(); left != "91" {
					t.Errorf("%s, %d limiters: %s are left, want 100 - 1 - 2 - 6",
						wire.Layouts[format].Name, limiters, left)
				}
			}
		}
	}
}
