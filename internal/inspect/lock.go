package inspect

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A Lock is the state of a lock in Redis at one moment.
type Lock struct {
	Name string    `json:"name"` // of the hash
	At   time.Time `json:"at"`   // by the clock of the Redis server
	Kind LockKind  `json:"lock"`

	Owners []Owner `json:"owners"` // one, or none if the lock is free

	// Token is the last token of a fenced lock, its first 40 bytes.
	Token string `json:"token,omitempty"`

	Waiters []Waiter `json:"waiters"` // of a fair lock, the next first
	Waiting int64    `json:"waiting"` // the length of the queue

	Keys     []Key     `json:"keys"`     // the hash, the token, the queue, the timeouts
	Findings []Finding `json:"findings"` // what is wrong; empty if nothing is

	fields    int64 // of the hash
	timeouts  int64 // members of the sorted set
	allScores bool  // all timeouts were read
	split     bool  // a cluster keeps the keys in different slots
	apart     bool  // the keys are on different servers, so only the hash was read
}

// A LockKind is the use of a lock, according to its keys.
type LockKind string

// The kinds of locks. A lock without a token and a queue looks plain.
const (
	Plain  LockKind = "plain"
	Fenced LockKind = "fenced" // there is a token
	Fair   LockKind = "fair"   // there is a queue
)

// The indexes of the keys of a Lock.
const (
	lockHash = iota
	lockToken
	lockQueue
	lockTimeouts
)

// An Owner is a field of the hash: a holder of the lock.
type Owner struct {
	Name  string `json:"owner"` // the ID of a Client, a colon and a number
	Count int64  `json:"count"` // how often it holds the lock
}

// A Waiter is an owner that waits for a fair lock.
type Waiter struct {
	Owner string     `json:"owner"`
	Until *time.Time `json:"until"` // its timeout, after which it counts as dead; nil if it has none
	Dead  bool       `json:"dead"`  // Until has passed
}

// There reports whether there is a lock: it has a holder or waiters, or a token of an earlier holder.
func (l *Lock) There() bool {
	beside := func(k Key) bool { return k.There() }
	return len(l.Owners) > 0 || !l.Keys[lockHash].There() && slices.ContainsFunc(l.Keys[1:], beside)
}

// Holds reports whether nothing is wrong with the lock.
func (l *Lock) Holds() bool { return allRemarks(l.Findings) }

// TTL returns the time to live of the hash, as PTTL replies.
func (l *Lock) TTL() int64 { return l.Keys[lockHash].TTL }

// listable reports whether the hash is surely a lock: its owners have UUIDs, as Redisson and Clients have by
// default, or it has a TTL, as each lock has.
func (l *Lock) listable() bool {
	byUUID := func(o Owner) bool {
		id, _ := ownerID(o.Name)
		return uuid.Validate(id) == nil
	}
	return len(l.Owners) > 0 && (l.TTL() >= 0 || !slices.ContainsFunc(l.Owners,
		func(o Owner) bool { return !byUUID(o) }))
}

// mostOwners is the most fields of a hash that may be a lock. More than one owner is a fault.
const mostOwners = 4

// ownerID returns the ID in the name of an owner, ID:number, and reports whether the field is one.
func ownerID(field string) (id string, ok bool) {
	i := strings.LastIndexByte(field, ':')
	if i < 1 {
		return "", false
	}
	id, number := field[:i], field[i+1:]
	_, err := strconv.ParseInt(number, 10, 64) // async calls of Java may pass any long
	if err != nil {
		_, err = strconv.ParseUint(number, 10, 64)
	}
	return id, err == nil && number[0] != '+'
}

// owners decodes the hash of a lock; it returns nil for another hash.
func owners(page []string) (found []Owner) {
	for pair := range slices.Chunk(page, 2) {
		if len(pair) < 2 {
			return nil
		}
		count, err := strconv.ParseInt(pair[1], 10, 64)
		if _, ok := ownerID(pair[0]); !ok || err != nil {
			return nil
		}
		found = append(found, Owner{pair[0], count})
	}
	return found
}

// kind returns the kind of a lock by its keys.
func (l *Lock) kind() LockKind {
	switch {
	case l.Keys[lockQueue].There() || l.Keys[lockTimeouts].There():
		return Fair
	case l.Keys[lockToken].There():
		return Fenced
	}
	return Plain
}

// ReadLock reads the lock in a hash, in one round trip, with at most the given number of waiters, between
// Least and Most. Neither a missing lock nor a hash of another program, which has no owners, is an error.
//
// If the braces in a name put its keys on different servers, only the hash is read.
func ReadLock(ctx context.Context, rdb redis.UniversalClient, hash string, waiters int) (*Lock, error) {
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
