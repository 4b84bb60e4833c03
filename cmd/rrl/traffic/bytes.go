package traffic

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/redisson-go/rratelimiter/limit"
)

// Bytes measures what a limiter in memory keeps of one key, by name of the algorithm: a
// mean over many keys, each of which has just given out the rate, one permit at a time,
// evenly over an interval. It has what the map takes, but not the text of the key. A key of
// a rate above 1,000 gives out 1,000. What else the process allocates meanwhile is counted, too.
func (p Plan) Bytes(ctx context.Context) (map[string]int, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	const mostEach, together, fewest, most = 1000, 100_000, 500, 5000
	each := min(p.Rate, mostEach)
	keys := make([]string, min(max(fewest, int(together/each)), most))
	for i := range keys {
		keys[i] = fmt.Sprintf("user-%06d", i)
	}
	kept := map[string]int{}
	for _, a := range p.algorithms() {
		before := heap()
		clock := newClock(p.Per)
		shelf, err := a.many(limit.WithClock(clock.now))
		for i := int64(0); i < each && err == nil; i++ {
			clock.set(p.Per * time.Duration(i) / time.Duration(each))
			err = takeOne(ctx, shelf, keys)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		after := heap()
		runtime.KeepAlive(shelf)
		kept[a.name] = max(0, int(after-before)/len(keys))
	}
	return kept, nil
}

// takeOne takes a permit of each key, if it is there.
func takeOne(ctx context.Context, shelf limit.Keyed, keys []string) error {
	for _, key := range keys {
		if _, err := shelf.Allow(ctx, key, 1); err != nil {
			return err
		}
	}
	return nil
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC() //revive:disable-line:call-to-gc -- what is garbage is not kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
