package rlock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A FencedLock is a Lock whose holds have a token (Redisson's RFencedLock): a number that
// is greater than that of each hold before. What the lock protects refuses a token that
// is less than one it has seen: then a holder that slept past its lease does no harm. A token
// is the time of the server in µs, or one more than the last if that is ahead of it. So
// the next one is greater also where a failover or a restart has forgotten the last.
type FencedLock struct{ handle }

// FencedLock returns the fenced lock called name (RedissonClient.getFencedLock). What is
// said of Client.Lock holds for it.
func (c *Client) FencedLock(name string) *FencedLock {
	k := c.keysOf(name)
	k.fenced = true
	return &FencedLock{handle{k}}
}

// LastToken returns the token that was given last to anybody, 0 if there was none
// (RFencedLock.getToken). One's own is [Hold.Token].
func (l *FencedLock) LastToken(ctx context.Context) (int64, error) {
	return onMaster(ctx, l.keys, func(rdb redis.Cmdable) (int64, error) {
		n, err := rdb.Get(ctx, l.keys.Token).Int64()
		if err == redis.Nil {
			return 0, nil
		}
		return n, err
	})
}
