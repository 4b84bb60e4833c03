package inspect

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Scan finds limiters and held locks among the keys of a Redis. It goes through all keys by SCAN, Page at a
// time, so that no call takes long; a hash costs an HMGET more, a limiter one read. If there is a PER_CLIENT
// limiter, a second pass finds its clients, because only the names of keys contain their IDs.
type Scan struct {
	Match string                 // pattern of Redis for the names of the hashes; empty for all
	Keep  func(hash string) bool // filters the names that match; nil for no filter
	Page  int64                  // keys that Redis looks at in one call; 0 for DefaultPage
	Limit int                    // limiters and locks to stop at; 0 for none

	// Progress is called after each page, by one goroutine at a time.
	Progress func(Progress)
}

// DefaultPage is a page that takes Redis about a ms.
const DefaultPage = 1000

// Progress is what a Scan has done so far.
type Progress struct {
	Keys     int64 `json:"keys"`     // keys that Redis was asked to look at, the second pass included
	Calls    int64 `json:"calls"`    // round trips
	Limiters int   `json:"limiters"` // found so far
	Locks    int   `json:"locks"`    // found so far
	Stopped  bool  `json:"stopped"`  // at Limit
}

const (
	// listed is how many records are read of a limiter in a list.
	listed = 200
	// MostClients is how many clients of a PER_CLIENT limiter are read at a time.
	MostClients = 16
)

// All returns the limiters and the locks that are held, each in the order of their names. A hash that is not
// a limiter and has at most mostOwners fields costs an HKEYS more, in one round trip for a page. A key that
// is created or deleted meanwhile may be in the lists or not.
func (s Scan) All(ctx context.Context, rdb redis.UniversalClient) ([]*Limiter, []*Lock, Progress, error) {
	w := &walk{
		Scan: s, seen: map[string]bool{}, locks: map[string]bool{}, clients: map[string][]string{},
	}
	if w.Page < 1 {
		w.Page = DefaultPage
	}
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
		w.step(0)
	}
	slices.SortFunc(locks, func(a, b *Lock) int { return strings.Compare(a.Name, b.Name) })
	w.done.Locks = len(locks)
	return limiters, locks, w.done, nil
}

// limiters goes through all keys, reads the limiters and returns them in the order of their names.
func (w *walk) limiters(ctx context.Context, rdb redis.UniversalClient) ([]*Limiter, error) {
	kind := redisx.KindOf(rdb)
	if err := kind.EachServer(ctx, w.hashes); err != nil {
		return nil, err
	}
	if w.perClient {
		if err := kind.EachServer(ctx, w.values); err != nil {
			return nil, err
		}
	}
	found := []*Limiter{}
	for hash := range w.seen {
		ids := w.clients[wire.KeysOf(hash, "").Pairs[0].Value]
		slices.Sort(ids)
		ids = slices.Compact(ids)
		l, err := Read(ctx, rdb, hash, listed, ids[:min(len(ids), MostClients)]...)
		switch {
		case redisx.Answered(err): // other limiters may be well
			l = &Limiter{Name: hash, Set: true, Keys: []Key{{hash, none, noKey}}, Findings: unreadable(err)}
		case err != nil:
			return nil, err
		}
		l.Clients = len(ids)
		w.step(0)
		if l.Set { // it may be gone by now
			found = append(found, l)
		}
	}
	slices.SortFunc(found, func(a, b *Limiter) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Clients returns the IDs of the clients of a PER_CLIENT limiter that have keys, by a pass over all keys of
// its server.
func Clients(ctx context.Context, rdb redis.UniversalClient, hash string) ([]string, error) {
	value := wire.KeysOf(hash, "").Pairs[0].Value
	w := &walk{Scan: Scan{Page: DefaultPage}, clients: map[string][]string{}}
	on, err := masterOf(ctx, rdb, hash)
	if err != nil {
		return nil, err
	}
	if err := w.pages(ctx, on, Literal(value)+":*", "string", w.noteClients); err != nil {
		return nil, err
	}
	ids := w.clients[value]
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// A walk is a Scan under way. It goes through all servers of a cluster at the same time.
type walk struct {
	Scan
	mu        sync.Mutex // guards the fields below, and calls of Progress
	done      Progress
	seen      map[string]bool     // names of limiters
	locks     map[string]bool     // names of possible locks
	clients   map[string][]string // ids by the name of the shared value
	perClient bool
}

// hashes finds the hashes of limiters, and of locks, on a server.
func (w *walk) hashes(ctx context.Context, on redis.Cmdable) error {
	match := w.Match
	if match == "" {
		match = "*"
	}
	return w.pages(ctx, on, match, "hash", func(ctx context.Context, keys []string) error {
		if w.Keep != nil {
			keys = slices.DeleteFunc(keys, func(key string) bool { return !w.Keep(key) })
		}
		if len(keys) == 0 {
			return nil
		}
		others, err := w.findLimiters(ctx, on, keys)
		if err == nil && len(others) > 0 {
			err = w.findLocks(ctx, on, others)
		}
		return err
	})
}

// findLimiters adds the limiters among some hashes to the list, and returns the hashes that may be locks. It
// returns errEnough if the list is full.
func (w *walk) findLimiters(ctx context.Context, on redis.Cmdable, keys []string) (others []string, _ error) {
	configs, lengths := make([]*redis.SliceCmd, len(keys)), make([]*redis.IntCmd, len(keys))
	_, err := on.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			configs[i], lengths[i] = p.HMGet(ctx, key, configFields...), p.HLen(ctx, key)
		}
		return nil
	})
	w.step(0)
	for i, key := range keys {
		texts := configs[i].Val()
		if len(texts) != len(configFields) {
			if err != nil && !redisx.Answered(configs[i].Err()) {
				return nil, err
			}
			continue // a key of another kind, or one that the user may not read
		}
		var c Config
		// If neither rate nor interval is a number, the hash belongs to another program.
		limiter := c.decode(texts) && (c.Rate != 0 || c.Interval != 0 || len(c.bad) == 0)
		if limiter && !w.note(key, &c) {
			return nil, errEnough
		}
		if !limiter && lengths[i].Val() <= mostOwners {
			others = append(others, key)
		}
	}
	return others, nil
}

// errEnough ends the pages of a server.
var errEnough = errors.New("there are enough")

// note adds a limiter to the list, or a lock, which has no Config. It returns false if the list is full.
func (w *walk) note(hash string, c *Config) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.seen
	if c == nil {
		list = w.locks
	}
	if w.Limit > 0 && len(w.seen)+len(w.locks) == w.Limit && !list[hash] {
		w.done.Stopped = true
		return false
	}
	list[hash] = true
	w.done.Limiters, w.done.Locks = len(w.seen), len(w.locks)
	w.perClient = w.perClient || c != nil && c.PerClient()
	return true
}

// values finds the clients of PER_CLIENT limiters.
func (w *walk) values(ctx context.Context, on redis.Cmdable) error {
	return w.pages(ctx, on, "*:value:*", "string", w.noteClients)
}

func (w *walk) noteClients(_ context.Context, keys []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		const end = ":value"
		if i := strings.LastIndex(key, end+":"); i >= 0 {
			value := key[:i+len(end)]
			w.clients[value] = append(w.clients[value], key[len(value)+1:])
		}
	}
	return nil
}

// pages calls each with the keys of a server that match and are of a kind, page by page. A Redis before 6.0
// cannot filter by kind; then each gets all kinds.
func (w *walk) pages(
	ctx context.Context, on redis.Cmdable, match, kind string, each func(context.Context, []string) error,
) error {
	for cursor := uint64(0); ; {
		keys, next, err := on.ScanType(ctx, cursor, match, w.Page, kind).Result()
		if redis.HasErrorPrefix(err, "syntax error") {
			keys, next, err = on.Scan(ctx, cursor, match, w.Page).Result()
		}
		if err != nil {
			return err
		}
		w.step(w.Page)
		if err := each(ctx, keys); err != nil {
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// step counts a round trip and the keys that it looked at, and reports the progress.
func (w *walk) step(keys int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done.Keys += keys
	w.done.Calls++
	if w.Progress != nil {
		w.Progress(w.done)
	}
}

// Literal returns a pattern that matches a text and nothing else.
func Literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// findLocks adds the locks among some hashes to the list. It returns errEnough if the list is full.
func (w *walk) findLocks(ctx context.Context, on redis.Cmdable, keys []string) error {
	fields := make([]*redis.StringSliceCmd, len(keys))
	_, err := on.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			fields[i] = p.HKeys(ctx, key)
		}
		return nil
	})
	w.step(0)
	for i, key := range keys {
		names, failed := fields[i].Result()
		if failed != nil && !redisx.Answered(failed) {
			return err
		}
		other := func(field string) bool {
			_, ok := ownerID(field)
			return !ok
		}
		if len(names) > 0 && !slices.ContainsFunc(names, other) && !w.note(key, nil) {
			return errEnough
		}
	}
	return nil
}
