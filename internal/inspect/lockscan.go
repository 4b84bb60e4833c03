package inspect

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
)

// All returns the limiters and the locks that are held, each in the order of their names. A hash that is no
// limiter and has mostOwners fields at most costs an HKEYS more, in one round trip for a page.
func (s Scan) All(ctx context.Context, rdb redis.UniversalClient) ([]*Limiter, []*Lock, Progress, error) {
	w := s.walk()
	w.locks = map[string]bool{}
	limiters, err := w.limiters(ctx, rdb)
	if err != nil {
		return nil, nil, w.done, err
	}
	locks := []*Lock{}
	for hash := range w.locks {
		l, err := ReadLock(ctx, rdb, hash, listed)
		switch {
		case redisx.Answered(err): // other locks may be well
			l = &Lock{
				Name: hash, Kind: Plain, Keys: []Key{{hash, none, noKey}}, Findings: unreadable(err),
			}
			locks = append(locks, l)
		case err != nil:
			return nil, nil, w.done, err
		case l.listable(): // it may be free by now
			locks = append(locks, l)
		}
		w.step(0, 1)
	}
	slices.SortFunc(locks, func(a, b *Lock) int { return strings.Compare(a.Name, b.Name) })
	w.done.Locks = len(locks)
	return limiters, locks, w.done, nil
}

// findLocks adds those of some hashes that are locks to the list. It returns errEnough if the list is full.
func (w *walk) findLocks(ctx context.Context, on redis.Cmdable, keys []string) error {
	fields := make([]*redis.StringSliceCmd, len(keys))
	_, err := on.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			fields[i] = p.HKeys(ctx, key)
		}
		return nil
	})
	w.step(0, 1)
	for i, key := range keys {
		names, failed := fields[i].Result()
		if failed != nil && !redisx.Answered(failed) {
			return err
		}
		other := func(field string) bool {
			_, _, ok := cutOwner(field)
			return !ok
		}
		if len(names) > 0 && !slices.ContainsFunc(names, other) && !w.note(key, nil) {
			return errEnough
		}
	}
	return nil
}
