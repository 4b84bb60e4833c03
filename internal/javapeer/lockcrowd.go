package javapeer

import (
	"cmp"
	"encoding/json"
	"time"
)

// LockCrowdOptions are the options of StartCrowd.
type LockCrowdOptions struct {
	Threads int           // 0 is 1
	Rounds  int           // of each thread; 0 is 1
	Lease   time.Duration // 0: lock(), which the watchdog renews
	Counter string        // the key of the counter
	Clients []string      // instances, one for each thread in turn; empty: that of the lock
}

func (o LockCrowdOptions) args() args {
	a := args{"threads": cmp.Or(o.Threads, 1), "rounds": cmp.Or(o.Rounds, 1), "counter": o.Counter}
	setPositive(a, "lease", o.Lease.Milliseconds())
	if len(o.Clients) > 0 {
		a["clients"] = o.Clients
	}
	return a
}

// A Hold is the time between the end of lock() and the start of unlock(), by the clock
// of this machine in whole µs.
type Hold struct{ From, To time.Time }

// UnmarshalJSON reads it from a list of two.
func (h *Hold) UnmarshalJSON(text []byte) error {
	var us [2]int64
	err := json.Unmarshal(text, &us)
	h.From, h.To = time.UnixMicro(us[0]), time.UnixMicro(us[1])
	return err
}

// LockCrowdResult is what a crowd measured.
type LockCrowdResult struct {
	Rounds    int64          // done without an exception
	Errors    map[string]int // exceptions by their class
	Holds     []Hold         // of all threads, ordered by their start
	Seconds   float64        // from the first call to the end of the last
	PerSecond float64        // rounds
	P50us     float64        // how long lock() took, in µs
	P99us     float64
	P999us    float64
}

// StartCrowd has threads of their own take the lock in turns. In each round a thread
// locks, reads the counter with GET, writes it back one higher with SET, and unlocks. If
// the lock keeps them apart, the counter is higher by the number of rounds then. After
// an exception the thread rests 10 ms, and the round is not done again.
func (l *Lock) StartCrowd(o LockCrowdOptions) *Started[LockCrowdResult] {
	return start[LockCrowdResult](l.peer, "lock.crowd", l.about(o.args()))
}
