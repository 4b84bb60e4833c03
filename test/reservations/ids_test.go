package reservations_test

import (
	"encoding/base64"
	"fmt"
	"regexp"
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
			`{"m":[{"n":["!"]}]}`, `{"m":[{"n":[]}]}`, `{"m":[{"n":{}}]}`,
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

// An ID can be part of a URL, and is short.
func TestAnIDIsShort(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		const shortest, longest, members = 80, 150, 3
		keyed := b.Client.Keyed("{api}:user", 1000, time.Minute)
		for n := 1; n <= members; n++ {
			var limiters []*rratelimiter.RateLimiter
			for i := range n {
				limiters = append(limiters, keyed.For(fmt.Sprint(i)))
			}
			r, err := b.Client.All(limiters...).Reserve(b.Context(), 3, 0)
			b.Want(err)
			text := regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
			if id := r.ID(); !text.MatchString(id) || len(id) < n*shortest || len(id) > n*longest {
				t.Errorf("%d limiters: %d characters, %s", n, len(id), id)
			}
		}
		plain := b.Wrap(b.Client.RateLimiter("exports"))
		b.Want(plain.SetRate(b.Context(), Overall, 10, time.Minute))
		if n := len(reserve(plain, 3).ID()); n < shortest || n > longest {
			t.Errorf("%d characters", n)
		}
	})
}

// Names and IDs of Clients that are not UTF-8, such as hashes and raw UUIDs, or that JSON escapes.
var oddNames = map[string]string{
	"UTF-8":           "grüße\u2028<&>",
	"U+FFFD":          "\ufffd",
	"its escape":      `\ufffd`,
	"escaped quote":   `"\\"`,
	"control":         "\x00\n\b\f",
	"a byte":          "\xff",
	"half of a rune":  "user:\xc3",
	"a UUID":          "\x8f\x14\xe4\x5f\xce\xea\x46\x7f\x9a\x36\xde\xdd\x4b\xea\x25\x43",
	"bytes and text":  "a\xffb\xfec\ufffd",
	"an encoded rune": "\xed\xa0\x80",
}

// Whatever name can be acquired can be settled elsewhere: alone, of a Keyed, in a Group, and PerClient for a
// Client whose ID is as odd.
func TestAnIDKeepsEachByteOfAName(t *testing.T) {
	for what, name := range oddNames {
		t.Run(what, func(t *testing.T) {
			OnBoth(t, func(b *Bench) {
				one, another := b.NewClient(rratelimiter.WithID(name)), b.NewClient(rratelimiter.WithID(name))
				shared, plain := b.Wrap(one.RateLimiter("shared:"+name)), b.Wrap(one.RateLimiter("own:"+name))
				b.Want(shared.SetRate(b.Context(), Overall, 1000, time.Minute))
				b.Want(plain.SetRate(b.Context(), PerClient, 1000, time.Minute))
				key := b.Wrap(one.Keyed("keyed", 1000, time.Minute).For(name))
				given := b.Wrap(one.RateLimiter("given:"+name).WithRate(1000, time.Minute))
				all := one.All(shared.RateLimiter, plain.RateLimiter, key.RateLimiter, given.RateLimiter)
				reserved, err := all.Reserve(b.Context(), 500, 0)
				b.Want(err)
				_, err = b.Client.Reservation(reserved.ID())
				WantErr(b, err, rratelimiter.ErrInvalidArgument, "the ID of the Client", "is PerClient")
				elsewhere, err := another.Reservation(reserved.ID())
				b.Want(err)
				b.Want(elsewhere.Settle(b.Context(), 100, 0, 500, 700))
				for l, used := range map[*Limiter]int64{shared: 100, plain: 0, key: 500, given: 700} {
					l.HasTaken(used)
				}
				for _, l := range []*Limiter{shared, plain, key, given} {
					taken, err := l.Peek(b.Context())
					b.Want(err)
					elsewhere, err := another.Reservation(reserve(l, 200).ID())
					b.Want(err)
					b.Want(elsewhere.Cancel(b.Context()))
					l.Has(taken.Remaining)
				}
			})
		})
	}
}

// An ID in which an earlier version replaced bytes of the name is refused: it would name another limiter. Its
// other IDs are those of today.
func TestIDsOfEarlierVersions(t *testing.T) {
	OnBoth(t, func(b *Bench) {
		l := b.Wrap(b.Client.RateLimiter("before:grüße"))
		b.Want(l.SetRate(b.Context(), Overall, 10, time.Minute))
		text, err := base64.RawURLEncoding.DecodeString(reserve(l, 3).ID())
		b.Want(err)
		if want := `{"m":[{"n":"before:grüße","r":"`; !strings.HasPrefix(string(text), want) {
			t.Errorf("%s, want it to begin with %s", text, want)
		}
		damaged := strings.Replace(string(text), "grüße", `gr\ufffde`, 1)
		_, err = b.Client.Reservation(base64.RawURLEncoding.EncodeToString([]byte(damaged)))
		WantErr(b, err, rratelimiter.ErrInvalidArgument, "Reservation", "be the ID of a reservation")
	})
}
