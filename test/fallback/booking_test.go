package fallback_test

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// What is booked is a record like any other, in the format of the Client, dated with the time of the grant.
func TestABookedRecordIsLikeAnyOther(t *testing.T) {
	plays(t, "rate 10 1h; learn; away", func(p *play) {
		granted := time.Now().UnixMilli()
		p.does("take 4; +5s; back; +3s; unbooked 0; taken 4")
		p.HasRecords(4)
		score := p.Look.ZScore(p.Context(), p.PermitsKey(), p.Members()[0]).Val()
		if at := int64(score); at < granted || at > time.Now().UnixMilli() || float64(at) != score {
			t.Errorf("dated %v, want a whole ms from %d on", score, granted)
		}
		p.does("take 6; no 1; give 10; taken 0")
	})
}

// A cutOff is a limiter whose Client grants permits while it is cut off from the server, and books
// them afterwards.
type cutOff struct {
	*Limiter
	client *rratelimiter.Client
	l      *Limiter
}

// newCutOff returns one of a rate of 10 in an hour. The server knows the scripts: otherwise the first
// reply to a booking that is lost may be NOSCRIPT.
func newCutOff(t *testing.T) *cutOff {
	t.Helper()
	n := NewProxied(t, 10, time.Hour, SendsOnce)
	client := n.NewClient(rratelimiter.WithFallback(rratelimiter.FallbackLocal),
		rratelimiter.WithLocalShare(1))
	c := &cutOff{n, client, n.By(client)}
	n.Want(c.l.SetRate(t.Context(), Overall, 10, time.Hour)) // so it knows the rate
	c.grants(1)
	n.Proxy.Up()
	c.untilBooked()
	n.UntilOut(1)
	n.Other().Gives(1)
	return c
}

// grants cuts the Client off, which then grants permits.
func (c *cutOff) grants(permits int) {
	c.Helper()
	c.Proxy.Down()
	c.Proxy.Cut()
	for range permits {
		c.l.Takes(1)
	}
}

func (c *cutOff) untilBooked() {
	c.Helper()
	Until(c.T, func() bool { return c.client.Health().Unbooked == 0 })
}

// isBooking reports whether a request is a booking.
func isBooking(args []string) bool { return IsScript(args) && len(args) > 3+3+12 }

// A booking whose reply is lost is booked once, also if another Client gives permits back out of its record
// before the second copy comes.
func TestABookingThatWasGivenBackIsNotMadeAgain(t *testing.T) {
	c := newCutOff(t)
	other := c.Other()
	c.grants(4)
	copies := 0
	c.Proxy.SwallowReplyTo(1, isBooking)
	pass := c.Proxy.HoldNext(1, func(args []string) bool {
		if isBooking(args) {
			copies++
		}
		return copies == 2
	})
	c.Proxy.Up()
	Until(t, func() bool { return c.Proxy.Held() == 1 })
	c.UntilOut(4)
	c.Now += 1000
	other.Takes(2)
	c.Other().Gives(2) // out of the oldest record
	other.Has(6)
	pass()
	c.untilBooked()
	c.UntilOut(4)
	other.Has(6)
}

// A copy of a booking that arrives after a later booking books nothing.
func TestALateCopyOfABooking(t *testing.T) {
	c := newCutOff(t)
	c.grants(4)
	first := c.HoldsNext(isBooking, func() error {
		c.Proxy.Up()
		return nil
	})
	c.Want(first.Overtaken())
	c.untilBooked()
	c.UntilOut(4)
	c.Other().Gives(4)
	c.grants(2)
	c.Proxy.Up()
	c.untilBooked()
	c.UntilOut(2)
	first.Arrives()
	c.UntilOut(2)
	c.l.Has(8)
}
