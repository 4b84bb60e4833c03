package main

import "github.com/redisson-go/rratelimiter/internal/words"

// ttl returns what PTTL has replied.
func ttl(ms int64) string {
	switch ms {
	case -1:
		return "none"
	case -2: // no key
		return "-"
	}
	return words.Span(ms)
}

// keepAlive returns a keep alive, of which 0 is none.
func keepAlive(ms int64) string {
	if ms == 0 {
		return "none"
	}
	return words.Span(ms)
}
