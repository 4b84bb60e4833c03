package traffic

import (
	"context"
	"fmt"
	"runtime"

	"github.com/redisson-go/rratelimiter/limit"
)

// Bytes measures what a limiter in memory keeps of one key, by name of the algorithm: a
// mean over many keys, each of which has just given out the rate, one permit at a time. It
// has what the map and the text of the key take. Above a rate of 1,000 a key gives out
// 1,000. What else the process allocates meanwhile is counted, too.
func (p *Plan) Bytes(ctx context.Context) (map[string]int, error) {
	const mostEach, together, fewest = 1000, 100_000, 100
	each := min(p.Rate, mostEach)
	keys := max(fewest, int(together/each))
	clock := newClock(p.Per)
	kept := map[string]int{}
	shelves, err := p.shelves(clock)
	if err != nil {
		return nil, err
	}
	for name, shelf := range shelves {
		before := heap()
		if err := fill(ctx, shelf, keys, each); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		after := heap()
		runtime.KeepAlive(shelf)
		kept[name] = max(0, int(after-before)/keys)
	}
	return kept, nil
}

// fill takes permits of many keys, as many as each has.
func fill(ctx context.Context, shelf limit.Keyed, keys int, each int64) error {
	for key := range keys {
		name := fmt.Sprintf("user-%06d", key)
		for range each {
			if _, err := shelf.Allow(ctx, name, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
