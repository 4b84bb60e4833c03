package ahead

import (
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/engine"
)

// The demand says when a limiter is leased, for how long, and how large the next lease is.
func TestDemand(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	const ms = time.Millisecond
	leasing := Leasing{Longest: 100 * ms}
	peers := engine.Peers{Rate: 1000, Interval: time.Second, Clients: 2, Left: 800}

	for _, row := range []struct {
		rate, interval int64 // ms
		lasts          time.Duration
	}{
		{1000, 1000, 50 * ms},           // a twentieth of the interval
		{1000, 60_000, leasing.Longest}, // at most what the caller allows
		{1000, 119, 5 * ms},             // in whole ms
		{1000, 99, 0},                   // too short to be used
		{99, 1000, 0},                   // too few permits
	} {
		d := demand{leasing: leasing}
		if d.noteRate(row.rate, row.interval); d.lasts != row.lasts {
			t.Errorf("%d per %d ms: a lease lasts %v, want %v", row.rate, row.interval, d.lasts, row.lasts)
		}
	}

	for name, row := range map[string]struct {
		asked, used, last int64 // permits asked for; used by the last lease of a size
		endedAt           time.Duration
		share             float64
		size, left        int64 // the current lease
		want              int64
	}{
		"asked only: twice":            {asked: 40, want: 80},
		"used little: a quarter more":  {used: 40, last: 100, want: 50},
		"used up: twice":               {used: 90, last: 100, want: 180},
		"used long ago":                {used: 90, last: 100, endedAt: -time.Second, want: 1},
		"of the current one":           {size: 100, left: 60, want: 50},
		"of the current one, used up":  {size: 100, left: 10, want: 180},
		"half of the rest, by Clients": {asked: 1000, want: 200},
		"a share of the rest":          {asked: 1000, share: 0.1, want: 40},
	} {
		d := demand{leasing: leasing}
		d.leasing.Share = row.share
		d.notePeers(peers, start)
		d.asked = row.asked
		if row.last > 0 {
			d.noteEnded(row.used, row.last, at(row.endedAt))
		}
		if size := d.size(row.size, row.left, start); size != row.want {
			t.Errorf("%s: size %d, want %d", name, size, row.want)
		}
	}

	d := demand{leasing: leasing}
	if d.known(start) || d.noteAsked(3, start) || !d.noteAsked(1, at(50*ms)) {
		t.Error("four permits within the longest lease are enough, before the rate is known")
	}
	d.notePeers(peers, start)
	if !d.known(at(longestLease-1)) || d.known(at(longestLease)) || d.noteAsked(3, at(101*ms)) {
		t.Error("what is left is known for a second, and demand counts anew after a lease's time")
	}
	d.noteRate(1, 1)
	if !d.known(at(learnEvery-1)) || d.noteAsked(100, at(learnEvery-1)) || !d.noteAsked(100, at(learnEvery)) {
		t.Error("a limiter that is not leased is asked about again after learnEvery")
	}
}
