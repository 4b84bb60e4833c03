package groups_test

import (
	"testing"
	"time"

	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A call of a Group, a reservation or a charge leaves the value of a PER_CLIENT limiter right, also next to
// more records than a call may sum. An estimate by some of them could refuse permits that are free.
func TestAPerClientValueStaysRightNextToManyRecords(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		const rate, large, small = 100_000, 100, 5900 // an estimate reads all large ones: it is too low
		l := b.NewLimiter(PerClient, rate, time.Hour)
		l.Takes(1)
		value, permits := l.ValueKey()+":"+b.Client.ID(), l.PermitsKey()+":"+b.Client.ID()
		b.FillKey(permits, b.Now-9000, 1, large, 100)
		b.FillKey(permits, b.Now-8000, 1, small, 1)
		b.SetKey(value, rate-1-large*100-small)
		l.Keeps(rate, value, permits)
		group := b.Client.All(l.RateLimiter, b.NewLimiter(Overall, rate, time.Hour).RateLimiter)
		for i := range int64(60) {
			b.Now++
			r, err := l.Reserve(b.Context(), 5, 0)
			b.Want(err)
			l.Keeps(rate, value, permits)
			b.Want(r.Settle(b.Context(), i%9))
			l.Keeps(rate, value, permits)
			b.Want(ErrOf(l.Charge(b.Context(), 1+i%7)))
			l.Keeps(rate, value, permits)
			b.Want(ErrOf(group.TryAcquire(b.Context(), 1+i%7, 0)))
			l.Keeps(rate, value, permits)
		}
	})
}

// A charge of a Group heals the member that is not plain, whichever it is.
func TestAChargeHealsTheMemberThatIsNotPlain(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		const rate, expired = 5010, 5000
		plain, other := b.NewLimiter(Overall, 10, time.Hour), b.NewLimiter(Overall, rate, time.Second)
		other.Fill(b.Now-2000, 100, expired, 1)
		b.SetKey(other.ValueKey(), rate-expired)
		r, err := b.Client.All(plain.RateLimiter, other.RateLimiter).Charge(b.Context(), 3)
		b.Want(err)
		if got := r.Each[1].Remaining; got != rate-3 {
			t.Errorf("%d permits are left, want %d", got, rate-3)
		}
		other.Keeps(rate, other.ValueKey(), other.PermitsKey())
	})
}
