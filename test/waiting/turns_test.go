package waiting_test

import (
	"crypto/rand"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A rival is a Java that waits for the permits of a limiter, and takes all that are
// there when it wakes up.
type rival struct {
	*testing.T
	server *miniredis.Miniredis
	taken  int
}

// takes drops what has expired, as Redisson does, and takes the rest.
func (j *rival) takes(rate int, interval time.Duration) {
	members, err := j.server.ZMembers("{l}:permits")
	if !errors.Is(err, miniredis.ErrKeyNotFound) {
		NoError(j.T, err)
	}
	left := rate
	for _, m := range members {
		at, err := j.server.ZScore("{l}:permits", m)
		NoError(j.T, err)
		if int64(at) <= time.Now().Add(-interval).UnixMilli() {
			NoError(j.T, ErrOf(j.server.ZRem("{l}:permits", m)))
			continue
		}
		n, err := wire.Permits(m)
		NoError(j.T, err)
		left -= int(n)
	}
	if left > 0 {
		NoError(j.T,
			ErrOf(j.server.ZAdd("{l}:permits", float64(time.Now().UnixMilli()),
				"\x10"+rand.Text()[:16]+string([]byte{byte(left), 0, 0, 0}))))
		j.taken += left
	}
	NoError(j.T, j.server.Set("{l}:value", strconv.Itoa(0)))
}

// shareOut runs four callers that want more than the limit for d, and beside them,
// withJava, a Java that wakes up late. It returns the permits of both sides.
func shareOut(t *testing.T, withJava bool, d time.Duration, opts ...rratelimiter.Option) (goes, javas int) {
	t.Helper()
	const rate, interval = 20, 400 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		c := rratelimiter.New(redistest.MiniClient(t, m), opts...)
		defer c.Close()
		l := c.RateLimiter("l")
		NoError(t, l.SetRate(t.Context(), Overall, rate, interval))
		end := time.Now().Add(d)
		counts := make(chan int, 4)
		for range 4 {
			go func() { counts <- TakeUntil(t, l, end) }()
		}
		j := &rival{T: t, server: m}
		for withJava && time.Now().Before(end) {
			time.Sleep(61 * time.Millisecond) // a tick of its timer
			synctest.Wait()
			j.takes(rate, interval)
		}
		for range 4 {
			goes += <-counts
		}
		javas = j.taken
	})
	return goes, javas
}

// Java wakes up late, and gets its part of a limit that is too small for both.
func TestGoGivesWayToJava(t *testing.T) {
	const all = 20 * 150 // in a minute
	goes, javas := shareOut(t, true, time.Minute)
	if part := float64(javas) / float64(goes+javas); part < 0.35 || part > 0.65 || goes+javas < all*93/100 {
		t.Errorf("Go got %d, Java %d, of %d; want about half each, and all it used, but for the ticks", goes,
			javas, all)
	}
	goes, javas = shareOut(t, true, time.Minute, rratelimiter.WithGoOnly())
	if javas*10 > goes {
		t.Errorf("Go got %d, Java %d; want next to nothing for Java with WithGoOnly", goes,
			javas)
	}
}

// Where Go alone takes permits, it gives way seldom.
func TestGoAloneSeldomGivesWay(t *testing.T) {
	const minute = 20 * 2.5 * 60
	if goes, _ := shareOut(t, false, time.Minute, rratelimiter.WithGoOnly()); goes < minute {
		t.Errorf("%d of %v with WithGoOnly", goes, minute)
	}
	const all = 5 * minute
	if goes, _ := shareOut(t, false, 5*time.Minute); float64(goes) < all*0.985 || float64(goes) >= all {
		t.Errorf("%d of %v; want at most 1 %% less, and a late wake-up now and then", goes, all)
	}
}

// A late wake-up delays neither permits that are given back, nor a timeout.
func TestALateWakeUpDelaysNoTimeout(t *testing.T) {
	Bubble(t, func(l *Limiter) {
		l.Want(l.SetRate(l.Context(), Overall, 2, time.Second))
		l.Took(1, 0, 0)
		time.Sleep(500 * time.Millisecond)
		l.Took(1, 0, 0)
		l.Took(1, time.Minute, 600*time.Millisecond) // late, and no other caller comes
		l.Took(1, time.Minute, 400*time.Millisecond)
		l.Took(1, time.Minute, 700*time.Millisecond) // again after a second
		l.Took(1, time.Minute, 300*time.Millisecond)
		l.Took(1, time.Minute, 700*time.Millisecond) // and then seldom
		l.Took(1, time.Minute, 300*time.Millisecond)
		time.Sleep(30 * time.Second)
		l.Took(2, 0, 0)
		l.Took(1, 1050*time.Millisecond, 1050*time.Millisecond) // at its timeout
		time.Sleep(30 * time.Second)
		l.Took(2, 0, 0)
		released := make(chan error, 1)
		time.AfterFunc(1020*time.Millisecond, func() { released <- l.Release(l.Context(), 1) })
		l.Took(1, time.Minute, 1020*time.Millisecond)
		l.Want(<-released)
	})
}
