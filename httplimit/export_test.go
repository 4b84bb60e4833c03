package httplimit

// Paused returns the number of hosts that are remembered.
func (t *RetryAfterTransport) Paused() int { return len(t.pausedUntil) }

var ReadDraft11 = readDraft11
