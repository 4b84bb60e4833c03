package main

import "runtime"

// heapMB returns the MB of heap that are in use when all garbage is collected.
func heapMB() float64 {
	var m runtime.MemStats
	for range 2 { // a sync.Pool keeps its values through the first collection
		runtime.GC() //revive:disable-line:call-to-gc the heap without garbage is what is measured
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}
