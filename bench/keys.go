package main

import "github.com/redisson-go/rratelimiter/internal/wire"

// keys are the names of a limiter's keys in Redis.
type keys struct {
	hash    string // its configuration
	value   string // permits that are free
	permits string // its records
	changed string // the channel on which waiters hear of changes
}

// keysOf returns the keys of a limiter. client is the ID of the Client for a
// PerClient limiter, empty for one that all share.
func keysOf(limiter, client string) keys {
	all := wire.KeysOf(limiter, client)
	pair := all.Pairs[0]
	if client != "" {
		pair = all.Pairs[1]
	}
	return keys{hash: all.Hash, value: pair.Value, permits: pair.Permits, changed: all.Changed}
}
