package yamlfile

import (
	"context"
	"time"
)

// Watch polls a configuration until ctx ends, and calls change once for each new content or error of read.
// Either counts when read has returned it twice, so that a partly written file does not count. The content
// may be a checksum. change is not called for the content that applied returns, that of the last load.
func Watch(
	ctx context.Context, every time.Duration, read func() (content string, err error), applied func() string,
	change func(err error),
) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last, noted string // contents or errors: the last one read, and the last one that was reported
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
