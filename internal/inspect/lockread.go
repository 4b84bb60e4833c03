package inspect

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// ReadLock reads the lock in a hash, in one round trip, with at most the given number of waiters, between 2
// and Most. A missing lock is no error; neither is a hash of another program, which has no owners.
//
// If the braces in a name put its keys on different servers, only the hash is read.
func ReadLock(ctx context.Context, rdb redis.UniversalClient, hash string, waiters int) (*Lock, error) {
	if waiters < 2 || waiters > Most {
		return nil, fmt.Errorf("waiters is %d, must be between 2 and %d", waiters, Most)
	}
	keys := wire.LockKeysOf(hash)
	r := &lockReading{hash: hash, most: int64(waiters), split: !keys.OneSlot()}
	for _, name := range []string{hash, keys.Token, keys.Queue, keys.Timeout} {
		r.keys = append(r.keys, keyReading{name: name})
	}
	r.apart = redisx.KindOf(rdb).Sharded && r.split
	if err := transact(ctx, rdb, hash, r); err != nil {
		return nil, err
	}
	return r.lock()
}

// A lockReading is the commands that read a lock, and then their replies.
type lockReading struct {
	hash         string
	most         int64 // waiters to read
	split, apart bool  // as of a Lock

	time   *redis.TimeCmd
	keys   []keyReading
	fields *redis.IntCmd
	owners *redis.ScanCmd

	token            *redis.StringCmd
	waiting, counted *redis.IntCmd
	queue            *redis.StringSliceCmd
	timeouts         *redis.ZSliceCmd
}

func (r *lockReading) ask(ctx context.Context, p redis.Pipeliner) {
	r.time = p.Time(ctx)
	r.keys[lockHash].ask(ctx, p)
	r.fields = p.HLen(ctx, r.hash)
	r.owners = p.HScan(ctx, r.hash, 0, "", mostOwners)
	if r.apart {
		return
	}
	for i := lockToken; i < len(r.keys); i++ {
		r.keys[i].ask(ctx, p)
	}
	queue, timeouts := r.keys[lockQueue].name, r.keys[lockTimeouts].name
	r.token = p.GetRange(ctx, r.keys[lockToken].name, 0, shown-1)
	r.waiting, r.counted = p.LLen(ctx, queue), p.ZCard(ctx, timeouts)
	r.queue = p.LRange(ctx, queue, 0, r.most-1)
	r.timeouts = p.ZRangeWithScores(ctx, timeouts, 0, r.most-1)
}

func (r *lockReading) replied() bool {
	return r.time.Err() == nil && r.keys[lockHash].kind.Err() == nil
}

// lock decodes the replies.
func (r *lockReading) lock() (*Lock, error) {
	cmds := []redis.Cmder{r.fields, r.owners}
	if !r.apart {
		cmds = append(cmds, r.token, r.waiting, r.counted, r.queue, r.timeouts)
	}
	if err := failed(cmds...); err != nil {
		return nil, err
	}
	l := &Lock{
		Name: r.hash, At: r.time.Val().UTC(), Owners: []Owner{}, Waiters: []Waiter{}, fields: r.fields.Val(),
		split: r.split, apart: r.apart,
	}
	for i := range r.keys {
		k := Key{r.keys[i].name, none, noKey}
		if i == lockHash || !r.apart {
			k = r.keys[i].key()
		}
		l.Keys = append(l.Keys, k)
	}
	if page, _ := r.owners.Val(); l.fields <= mostOwners {
		l.Owners = append(l.Owners, owners(page)...)
	}
	if !r.apart {
		l.Token, l.Waiting, l.timeouts = r.token.Val(), r.waiting.Val(), r.counted.Val()
		l.allScores = int64(len(r.timeouts.Val())) == l.timeouts
		l.decodeWaiters(r.queue.Val(), r.timeouts.Val())
	}
	l.Kind = l.kind()
	l.Findings = l.find()
	return l, nil
}

// decodeWaiters joins the queue with the timeouts of its members.
func (l *Lock) decodeWaiters(queue []string, timeouts []redis.Z) {
	scores := make(map[string]float64, len(timeouts))
	for _, z := range timeouts {
		if member, ok := z.Member.(string); ok {
			scores[member] = z.Score
		}
	}
	now := float64(l.At.UnixMilli())
	for _, owner := range queue {
		w := Waiter{Owner: owner}
		if score, there := scores[owner]; there {
			w.Until, w.Dead = new(moment(score)), score <= now
		}
		l.Waiters = append(l.Waiters, w)
	}
}

// EndedHoldsOf counts the idempotency keys of a lock by a pass over the names of keys of its server. The pass
// ends at mostKeys, since nothing depends on the count.
func EndedHoldsOf(ctx context.Context, rdb redis.UniversalClient, hash string) (*EndedHolds, error) {
	const mostKeys = 100 * DefaultPage
	on, err := masterOf(ctx, rdb, hash)
	if err != nil {
		return nil, err
	}
	keys := wire.LockKeysOf(hash)
	w := &walk{Scan: Scan{Page: DefaultPage}}
	names := map[string]bool{} // SCAN may return a key twice
	looked := int64(0)
	pattern := Literal(keys.IdempotencyKeys) + "*"
	err = w.pages(ctx, on, pattern, "string", func(_ context.Context, page []string) error {
		for _, name := range page {
			names[name] = true
		}
		if looked += DefaultPage; looked >= mostKeys {
			return errEnough
		}
		return nil
	})
	return &EndedHolds{Found: len(names), AtLeast: looked >= mostKeys}, err
}
