package engine

// A waiterList holds waiters in order. It is a linked list, because a caller may
// leave from any position, and the links are in the waiters, so that a call
// allocates nothing.
type waiterList struct {
	first, last *waiter
	size        int
	permits     int64 // the sum over all
	expired     int   // waiters whose timeout has passed
}

func (ls *waiterList) empty() bool { return ls.first == nil }

// all calls f for each waiter. f may remove the waiter that it gets.
func (ls *waiterList) all(f func(w *waiter)) {
	for w := ls.first; w != nil; {
		next := w.next
		f(w)
		w = next
	}
}

func (ls *waiterList) push(w *waiter) { ls.insert(w, ls.last) }

// insert puts w behind another waiter, or first if behind is nil.
func (ls *waiterList) insert(w, behind *waiter) {
	ls.size++
	ls.permits += w.Permits
	if w.expired() {
		ls.expired++
	}
	w.list, w.prev, w.next = ls, behind, ls.first
	if behind != nil {
		w.next = behind.next
		behind.next = w
	} else {
		ls.first = w
	}
	if w.next != nil {
		w.next.prev = w
	} else {
		ls.last = w
	}
}
