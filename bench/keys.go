package main

// keys are the names of a limiter's keys in Redis.
type keys struct {
	hash    string // its configuration
	value   string // permits that are free
	permits string // its records
	changed string // the channel on which waiters hear of changes
}

// keysOf returns the keys of a limiter whose name has no braces. client is the
// ID of the Client for a PerClient limiter, empty for one that all share.
func keysOf(limiter, client string) keys {
	end := ""
	if client != "" {
		end = ":" + client
	}
	tag := "{" + limiter + "}"
	return keys{
		hash: limiter, value: tag + ":value" + end, permits: tag + ":permits" + end,
		changed: tag + ":changed",
	}
}
