package yamlfile

import (
	"context"
	"time"
)

// Watch polls a configuration until ctx ends, and calls change for each new content or error of read, once.
// Both count when read has returned the same twice, so that a partly written file does not. The content may
// be a sum of it. change is not called for the content that applied returns, that of the last load.
func Watch(
	ctx context.Context, every time.Duration, read func() (content string, err error), applied func() string,
	change func(err error),
) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last, noted string // contents or errors: of the last reading, and for which change was called
	for {
		now, err := read()
		if err != nil {
			now = err.Error()
		}
		settled := now == last
		last = now
		if err == nil && now == applied() {
			noted = now
		}
		if settled && now != noted {
			noted = now
			change(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
