package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

const (
	// Few is how many records suffice for a display that is refreshed.
	Few = 1000
	// Many is how many records are read for a single display: some 5 ms of Redis.
	Many = 10_000
	// Least is the smallest number of records to read.
	Least = 2
	// Most is the largest number of records to read.
	Most = 100_000

	// mostSessions is about how many fields of a hash are looked through for sessions.
	mostSessions = 200
	// shown is how many bytes of a value are read: a number has 20 at most.
	shown = 40
)

// Read reads the limiter in a hash, in one round trip: the pair that all clients share, the pairs of the
// clients with ids, and at most the given number of records of each pair, between Least and Most. One half
// of the records are the oldest, the other the newest. A missing limiter is not an error.
//
// If the braces in a name put its keys on different servers, only the hash is read.
func Read(
	ctx context.Context, rdb redis.UniversalClient, hash string, records int, ids ...string,
) (*Limiter, error) {
	r := newReading(hash, records, ids)
	r.apart = redisx.KindOf(rdb).Sharded && !wire.SameSlot(hash, r.pairs[0].value.name)
	if err := transact(ctx, rdb, hash, r); err != nil {
		return nil, err
	}
	return r.limiter()
}

// A query is commands that are sent as one transaction.
type query interface {
	ask(ctx context.Context, p redis.Pipeliner) // adds the commands to a pipeline
	replied() bool                              // whether Redis has carried out the transaction
}

// transact sends a query to the server that has a key.
func transact(ctx context.Context, rdb redis.UniversalClient, key string, q query) error {
	on, err := serverOf(rdb, key)
	if err != nil {
		return err
	}
	tx := on.TxPipeline()
	q.ask(ctx, tx)
	_, err = tx.Exec(ctx)
	switch {
	case err == nil || q.replied():
		return nil
	case redis.HasErrorPrefix(err, "EXECABORT"):
		return why(ctx, on, err, q)
	}
	return err
}

// failed returns the first error of commands, other than a key that does not exist or is of another kind.
func failed(cmds ...redis.Cmder) error {
	for _, cmd := range cmds {
		err := cmd.Err()
		if err != nil && !errors.Is(err, redis.Nil) && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return err
		}
	}
	return nil
}

// why returns why Redis refused a transaction: the error of a command that this user may not send. Redis
// reports that error before EXEC, and go-redis keeps only EXECABORT.
func why(ctx context.Context, on redis.Cmdable, err error, q query) error {
	pipe := on.Pipeline()
	q.ask(ctx, pipe)
	cmds, _ := pipe.Exec(ctx)
	if reason := failed(cmds...); reason != nil {
		return reason
	}
	return err
}

// serverOf returns the server that has a key, because a Ring sends a command without a key, such as TIME, to
// any of its servers.
func serverOf(rdb redis.UniversalClient, key string) (redis.Cmdable, error) {
	if ring, ok := rdb.(interface {
		GetShardClientForKey(key string) (*redis.Client, error)
	}); ok {
		return ring.GetShardClientForKey(key)
	}
	return rdb, nil
}

// masterOf is serverOf for SCAN, which has no key: it returns the server of a cluster that has the key.
func masterOf(ctx context.Context, rdb redis.UniversalClient, key string) (redis.Cmdable, error) {
	if cluster, ok := rdb.(interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}); ok {
		return cluster.MasterForKey(ctx, key)
	}
	return serverOf(rdb, key)
}

// A reading is the commands that read a limiter, and then their replies.
type reading struct {
	hash string
	half int64 // of the records to read

	apart bool // the pairs are on other servers

	time     *redis.TimeCmd
	key      keyReading
	config   *redis.SliceCmd
	fields   *redis.IntCmd
	sessions *redis.ScanCmd
	pairs    []pairReading
}

type keyReading struct {
	name string
	kind *redis.StatusCmd
	ttl  *redis.IntCmd // redis.DurationCmd cannot hold all that PTTL may reply
}

type pairReading struct {
	id             string
	value, permits keyReading
	text           *redis.StringCmd
	total          *redis.IntCmd
	oldest, newest *redis.ZSliceCmd
	voucher        *redis.SliceCmd
}

func newReading(hash string, records int, ids []string) *reading {
	r := &reading{hash: hash, half: int64(records / 2), key: keyReading{name: hash}}
	for _, id := range append([]string{""}, ids...) {
		keys := keysOf(hash, id)
		r.pairs = append(r.pairs, pairReading{
			id: id, value: keyReading{name: keys.Value}, permits: keyReading{name: keys.Permits},
		})
	}
	return r
}

func (r *reading) ask(ctx context.Context, p redis.Pipeliner) {
	r.time = p.Time(ctx)
	r.key.ask(ctx, p)
	r.config = p.HMGet(ctx, r.hash, configFields...)
	r.fields = p.HLen(ctx, r.hash)
	r.sessions = p.HScan(ctx, r.hash, 0, wire.SessionPrefix+"*", mostSessions)
	if r.apart {
		return
	}
	for i := range r.pairs {
		pair := &r.pairs[i]
		pair.value.ask(ctx, p)
		pair.permits.ask(ctx, p)
		pair.text = p.GetRange(ctx, pair.value.name, 0, shown-1)
		pair.total = p.ZCard(ctx, pair.permits.name)
		pair.oldest = p.ZRangeWithScores(ctx, pair.permits.name, 0, r.half-1)
		pair.newest = p.ZRangeWithScores(ctx, pair.permits.name, -r.half, -1)
		pair.voucher = p.HMGet(ctx, r.hash, wire.VoucherOf(pair.value.name))
	}
}

func (k *keyReading) ask(ctx context.Context, p redis.Pipeliner) {
	k.kind, k.ttl = p.Type(ctx, k.name), redis.NewIntCmd(ctx, "pttl", k.name)
	_ = p.Process(ctx, k.ttl) // a pipeline sends nothing yet
}

func (k *keyReading) key() Key {
	return Key{Name: k.name, Kind: k.kind.Val(), TTL: k.ttl.Val()}
}

// replied reports whether Redis has carried out the transaction. Some of its commands may have failed
// nevertheless, on a key of another kind.
func (r *reading) replied() bool { return r.time.Err() == nil && r.key.kind.Err() == nil }

// limiter decodes the replies.
func (r *reading) limiter() (*Limiter, error) {
	l := &Limiter{Name: r.hash, At: r.time.Val().UTC(), Keys: []Key{r.key.key()}, Fields: r.fields.Val()}
	if err := failed(r.config, r.fields, r.sessions); err != nil {
		return nil, err
	}
	if texts := r.config.Val(); len(texts) == len(configFields) {
		l.Set = l.Config.decode(texts)
	}
	l.Sessions = sessions(r.sessions)
	for i := range r.pairs {
		pair, keys, err := r.pairs[i].pair(r.apart)
		if err != nil {
			return nil, err
		}
		l.Keys, l.Pairs = append(l.Keys, keys...), append(l.Pairs, pair)
	}
	for i := range l.Pairs {
		l.Pairs[i].judge(l)
	}
	l.split, l.apart = !wire.SameSlot(l.Name, l.Keys[1].Name), r.apart
	l.Findings = l.find()
	return l, nil
}

// pair decodes the replies of a pair.
func (r *pairReading) pair(apart bool) (Pair, []Key, error) {
	pair := Pair{ID: r.id}
	if apart {
		pair.Records = []Record{}
		return pair, []Key{{r.value.name, none, noKey}, {r.permits.name, none, noKey}}, nil
	}
	if err := failed(r.text, r.total, r.oldest, r.newest, r.voucher); err != nil {
		return pair, nil, err
	}
	keys := []Key{r.value.key(), r.permits.key()}
	pair.Total = r.total.Val()
	pair.decodeVoucher(r.voucher.Val())
	pair.decodeValue(r.text.Val(), keys[0].There())
	pair.decodeRecords(r.oldest.Val(), r.newest.Val())
	return pair, keys, nil
}

// sessions decodes the fields that Go Clients keep, the last request first.
func sessions(scan *redis.ScanCmd) []Session {
	page, _ := scan.Val()
	found := []Session{}
	for pair := range slices.Chunk(page, 2) {
		if len(pair) < 2 {
			break
		}
		if !wire.IsSession(pair[0]) || strings.HasSuffix(pair[0], wire.Booking) {
			continue
		}
		s, at, where := Session{Field: pair[0]}, int64(0), int64(0)
		const form, least = "%d %d %d %d %d", 4 // the last is there in a PER_CLIENT limiter only
		n, _ := fmt.Sscanf(pair[1], form, &s.Number, &at, &s.Amount, &where, &s.Rate)
		if n >= least {
			s.At = moment(float64(at))
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b Session) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.Number, a.Number), cmp.Compare(a.Field, b.Field))
	})
	return found
}

// keysOf returns the names of the keys of a pair.
func keysOf(hash, id string) wire.Pair {
	pairs := wire.KeysOf(hash, id).Pairs
	if id == "" {
		return pairs[0]
	}
	return pairs[1]
}
