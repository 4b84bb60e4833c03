package engine

// A waiterList holds waiters, first come first served. One leaves from wherever it
// stands.
type waiterList struct {
	first, last *waiter
	size        int
	permits     int64 // of all
	expired     int   // those whose timeout has passed
}

func (ls *waiterList) empty() bool { return ls.first == nil }

// all calls f for each waiter, which f may take out.
func (ls *waiterList) all(f func(w *waiter)) {
	for w := ls.first; w != nil; {
		next := w.next
		f(w)
		w = next
	}
}

func (ls *waiterList) push(w *waiter) { ls.insert(w, ls.last) }

// insert puts w behind another one, which is nil for the first place.
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
