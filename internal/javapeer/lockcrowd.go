package javapeer

import (
	"cmp"
	"encoding/json"
	"time"
)

// LockCrowdOptions are the options of StartCrowd.
type LockCrowdOptions struct {
	Threads int      // 0 is 1
	Rounds  int      // of each thread; 0 is 1
	Counter string   // the key of the counter
	Clients []string // instances, one for each thread in turn
}

// A Hold is the time from the end of lock() to the start of unlock(), by the clock of
// this machine in whole µs.
type Hold struct{ From, To time.Time }

// UnmarshalJSON reads it from a list of two.
func (h *Hold) UnmarshalJSON(text []byte) error {
	var us [2]int64
	err := json.Unmarshal(text, &us)
	h.From, h.To = time.UnixMicro(us[0]), time.UnixMicro(us[1])
	return err
}

// LockCrowdResult is what a crowd did.
type LockCrowdResult struct {
	Errors map[string]int // exceptions by their class
	Holds  []Hold         // of all threads, ordered by their start
}

// StartCrowd starts threads that take the lock in turns. In each round a thread locks,
// reads the counter with GET, writes it back one higher with SET, and unlocks. If the
// lock keeps the threads apart, the counter grows by the number of rounds. After an
// exception the thread rests 10 ms, and does not repeat the round.
func (l *Lock) StartCrowd(o LockCrowdOptions) *Started[LockCrowdResult] {
	return start[LockCrowdResult](l.peer, "lock.crowd", l.about(args{
		"threads": cmp.Or(o.Threads, 1), "rounds": cmp.Or(o.Rounds, 1), "counter": o.Counter,
		"clients": o.Clients,
	}))
}
