package compare

import (
	"strconv"
	"strings"
	"sync"
)

// A requestLog keeps the last script call that Java has sent for each limiter.
type requestLog struct {
	mu   sync.Mutex
	last map[string][]string // by name; guarded by mu
}

// see enters a request, as its command and arguments.
func (l *requestLog) see(args []string) {
	const name = 3 // after the command, the script and the number of keys
	if len(args) > name && strings.HasPrefix(strings.ToLower(args[0]), "eval") {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.last[args[name]] = args
	}
}

// take returns the last call for a limiter and forgets it.
func (l *requestLog) take(name string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	args := l.last[name]
	delete(l.last, name)
	return args
}

// javaTime returns the time that Java has sent with a step, in Unix ms. Not
// every operation sends one.
func (l *requestLog) javaTime(name string, s Step) (now int64, sent bool) {
	const first = 3 + 5 // the first argument after the keys, of which Redisson names five
	args, at := l.take(name), 0
	switch {
	case s.Op == TryAcquire:
		at = first + 1
	case s.Op == AvailablePermits:
		at = first
	case s.Op == UpdateRate, s.Op == SetRate && s.KeepState:
		at = first + 4
	}
	if at == 0 || len(args) <= at {
		return 0, false
	}
	now, err := strconv.ParseInt(args[at], 10, 64)
	return now, err == nil
}
