package faults

import (
	"errors"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// OfSentinel are faults of a master with a replica, under sentinels. Each changes
// which of them is the master, and ends when the other one follows it.
var OfSentinel = []Fault{
	{
		Name:   "the master is killed, and its replica is promoted",
		Setup:  Setup{Kind: Sentinels},
		Errors: []string{"READONLY", "LOADING", "MASTERDOWN"},
		Break: func(r *Round) {
			old, lost := r.Sentinel.Master, r.counted()
			r.Sentinel.Failover(r.t)
			lost(time.Now())
			old.RestartBehind(r.t, r.Sentinel.Master)
			r.settled()
		},
	},
	{
		Name:   "the master stands still, and its replica is promoted meanwhile",
		Setup:  Setup{Kind: Sentinels},
		Errors: []string{"READONLY", "LOADING", "MASTERDOWN"},
		Break: func(r *Round) {
			since := time.Now()
			r.Sentinel.Stall(r.t)
			// Until the sentinels notify it, the old master serves all clients that have a
			// connection to it.
			r.settled()
			r.lose(since, time.Now(), "two servers thought that they were the master")
		},
	},
}

// settled waits until the sentinels have left both servers alone for a second. Until
// then they may change the master once more, if a server is slow on a busy machine.
func (r *Round) settled() {
	began, since := time.Now(), time.Now()
	first := redistest.Must(r.Sentinel.Epoch())(r.t)
	redistest.Until(r.t, "a second of peace", func() error {
		err := r.Sentinel.Whole()
		if err != nil {
			since = time.Now()
		} else if time.Since(since) < time.Second {
			err = errors.New("not for a second yet")
		}
		return err
	})
	if redistest.Must(r.Sentinel.Epoch())(r.t) != first {
		r.lose(began, time.Now(), "the sentinels changed the master once more")
	}
}
