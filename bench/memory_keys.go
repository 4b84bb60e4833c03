package main

import (
	"context"
	"runtime"
	"time"
)

// A keysRoom is the heap that keys take which have come once.
type keysRoom struct {
	perKey float64 // bytes, with the key
	left   float64 // of it, when all were idle for two windows and more, in which some calls came
}

// measureKeys lets many keys come, each once, and then waits. A window is longer than they
// take to come.
func (r *memoryResult) measureKeys(ctx context.Context, s *scope) error {
	if r.keyed == nil {
		return nil
	}
	n := amount(s, 1_000_000, 1000)
	window := amount(s, 3*time.Second, 50*time.Millisecond)
	before := heapMB()
	once, err := r.keyed(s, terms{1000, window})
	if err != nil {
		return err
	}
	for i := range n {
		// Nobody else keeps the key, as that of a request.
		if ok, err := once(keyNumber(i)); err != nil || !ok {
			return errRefused
		}
	}
	full := heapMB() - before
	r.room.perKey = full * 1e6 / float64(n)
	for range 5 {
		if err := pause(ctx, window/2); err != nil {
			return err
		}
		if _, err := once("later"); err != nil {
			return err
		}
	}
	r.room.left = (heapMB() - before) / full
	runtime.KeepAlive(once)
	progress("algorithms-memory: keys of %s, %s", r.algorithm, r.name)
	return nil
}
