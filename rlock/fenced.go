package rlock

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// A FencedLock is a Lock whose holds have a token (Redisson's RFencedLock), each greater than all tokens
// before. If the protected resource rejects tokens less than the greatest it has seen, a holder that slept
// past its lease does no harm. A token is the server's time in µs, or one more than the last token if that
// is greater. So tokens grow even if a failover or a restart has lost the last one.
type FencedLock struct{ handle }

// FencedLock returns the fenced lock called name (RedissonClient.getFencedLock). See Client.Lock.
func (c *Client) FencedLock(name string) *FencedLock {
	k := c.keysOf(name)
	k.fenced = true
	return &FencedLock{handle{k}}
}

// LastToken returns the last token of any hold, 0 if there was none (RFencedLock.getToken). [Hold.Token]
// returns that of one hold.
func (l *FencedLock) LastToken(ctx context.Context) (int64, error) {
	return onMaster(ctx, l.keys, func(rdb redis.Cmdable) (int64, error) {
		return number(rdb.Get(ctx, l.keys.Token))
	})
}

// number returns the number in a reply, 0 if there is none.
func number(reply *redis.StringCmd) (int64, error) {
	n, err := reply.Int64()
	if err == redis.Nil {
		return 0, nil
	}
	return n, err
}
