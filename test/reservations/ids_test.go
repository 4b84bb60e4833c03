package reservations_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A text that is no ID is refused before Redis is asked.
func TestGarbageIsNoID(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		for _, text := range []string{
			"", "null", "{}", "[]", `{"m":[]}`, `{"m":[{"n":"q"}]}`, `{"m":[{"n":"q","r":"AQID","a":1}]}`,
		} {
			_, err := b.Client.Reservation(base64.RawURLEncoding.EncodeToString([]byte(text)))
			WantErr(b, err, rratelimiter.ErrInvalidArgument, "Reservation", "be the ID of a reservation")
		}
		r := reserve(b.NewLimiter(Overall, 10, time.Minute), 3)
		for _, id := range []string{"=", r.ID() + "=", r.ID()[1:], r.ID()[:len(r.ID())-5]} {
			_, err := b.Client.Reservation(id)
			WantErr(b, err, rratelimiter.ErrInvalidArgument, "Reservation", "be the ID of a reservation")
		}
	})
}

// An ID that names another limiter takes nothing out of its records.
func TestAnIDOfAnotherLimiterGivesNothingBack(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l, other := b.NewLimiter(Overall, 100, time.Minute), b.NewLimiter(Overall, 100, time.Minute)
		other.Takes(20)
		text, err := base64.RawURLEncoding.DecodeString(reserve(l, 10).ID())
		b.Want(err)
		text = []byte(strings.Replace(string(text), l.Name(), other.Name(), 1))
		r, err := b.Client.Reservation(base64.RawURLEncoding.EncodeToString(text))
		b.Want(err)
		settle(other, r, 0)
		other.Has(80)
		l.Has(90)
	})
}
