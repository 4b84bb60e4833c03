package rlock

import (
	"encoding/binary"
	"sync"
)

// owners are the numbers that a Client has given to its holds, and which of them may still hold a lock.
type owners struct {
	first uint64 // one less than the first number

	mu   sync.Mutex
	last uint64
	live map[uint64]struct{}
}

// begin chooses random numbers, because an earlier process may have had the same ID. All numbers have 19
// digits, by which fair locks tell them from the thread IDs of Java.
func (o *owners) begin(random []byte) {
	const most = 2
	o.first = 1<<(64-most) | binary.BigEndian.Uint64(random)>>most
	o.last, o.live = o.first, map[uint64]struct{}{}
}

// next returns the number of a new owner.
func (o *owners) next() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.live[o.last] = struct{}{}
	return o.last
}

// end removes an owner that has no lock and will not get one.
func (o *owners) end(number uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.live, number)
}

// ended returns the ended owner whose number ends with digits, if there is one. Scripts reply only these
// digits, because Lua numbers have 53 bits.
func (o *owners) ended(digits int64) (number uint64, ok bool) {
	const all = 1_000_000_000_000_000 // 15 digits, as in parts/holder.lua
	if digits <= 0 || digits >= all {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	behind := (o.last%all + all - uint64(digits)) % all
	number = o.last - behind
	_, live := o.live[number]
	return number, number > o.first && !live
}
