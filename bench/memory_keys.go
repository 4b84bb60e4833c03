package main

import (
	"cmp"
	"context"
	"runtime"
	"time"
)

// A keysRoom is the heap that keys take which have come once.
type keysRoom struct {
	perKey float64 // bytes, with the key
	left   float64 // the part of it when all were idle for some windows
}

// measureKeys lets many keys come, once to stay, and then some to be idle.
func (r *memoryResult) measureKeys(ctx context.Context, s *scope) (err error) {
	if r.keyed == nil {
		return nil
	}
	n := amount(s, 1_000_000, 1000)
	full, _, err := r.fill(ctx, s, n, time.Hour, 0)
	if err != nil {
		return err
	}
	r.room.perKey = full * 1e6 / float64(n)
	// To look at a heap takes long enough for a sweep: what keys take is known by now.
	some := n / 10
	_, left, err := r.fill(ctx, s, some, amount(s, time.Second, 50*time.Millisecond), 10)
	r.room.left = left * 1e6 / (r.room.perKey * float64(some))
	progress("algorithms-memory: keys of %s, %s", r.algorithm, r.name)
	return err
}

// fill lets n keys come, each once. It returns the MB that they take, and that are left
// after so many halves of a window, each of which ends with a call.
func (r *memoryResult) fill(
	ctx context.Context, s *scope, n int, window time.Duration, halves int,
) (full, left float64, err error) {
	before := settledMB()
	once, err := r.keyed(s, terms{1000, window})
	if err != nil {
		return 0, 0, err
	}
	for i := range n {
		// Nobody else keeps the key, as that of a request.
		if ok, err := once(keyNumber(i)); err != nil || !ok {
			return 0, 0, cmp.Or(err, errRefused)
		}
	}
	full = settledMB() - before
	for range halves {
		if err := pause(ctx, window/2); err != nil {
			return 0, 0, err
		}
		if _, err := once("later"); err != nil {
			return 0, 0, err
		}
	}
	left = settledMB() - before
	runtime.KeepAlive(once)
	return full, left, nil
}

// settledMB returns the MB of heap when that does not become less any more. A store with a
// finalizer, as that of ulule/limiter, is gone some collections after its last use.
func settledMB() float64 {
	mb := heapMB()
	for range 10 {
		time.Sleep(10 * time.Millisecond) // finalizers and what they stop take their time
		less := heapMB()
		if mb-less < 0.05 {
			return less
		}
		mb = less
	}
	return mb
}
