package compare

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// readStates reads the states of two clients at one moment, by the wire.Keys of each.
func readStates(
	ctx context.Context, rdb redis.UniversalClient, keys [2][]string,
) (states [2]state, err error) {
	var take [2]func() (state, error)
	_, err = rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		for i := range keys {
			take[i] = readState(ctx, tx, keys[i])
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) { // Nil is the reply for a missing value
		return states, err
	}
	var errs [2]error
	for i := range keys {
		states[i], errs[i] = take[i]()
	}
	return states, errors.Join(errs[:]...)
}

// readState queues the commands that read a state. take returns it after the transaction.
func readState(ctx context.Context, tx redis.Pipeliner, keys []string) (take func() (state, error)) {
	hash, ends := tx.HGetAll(ctx, keys[0]), tx.PTTL(ctx, keys[0])
	var values [2]*redis.StringCmd
	var valueEnds, recordsEnds [2]*redis.DurationCmd
	var records [2]*redis.ZSliceCmd
	for i := range 2 {
		value, permits := keys[1+2*i], keys[2+2*i]
		values[i], valueEnds[i] = tx.Get(ctx, value), tx.PTTL(ctx, value)
		records[i], recordsEnds[i] = tx.ZRangeWithScores(ctx, permits, 0, -1), tx.PTTL(ctx, permits)
	}
	return func() (st state, err error) {
		for name, value := range hash.Val() {
			if st.hash == nil {
				st.hash = map[string]string{}
			}
			if !strings.HasPrefix(name, "session:") && name != "checked" { // fields of Go alone
				st.hash[name] = value
			}
		}
		st.ends = end(ends)
		for i := range st.pairs {
			st.pairs[i] = pair{value: values[i].Val(), valueEnds: end(valueEnds[i]),
				recordsEnds: end(recordsEnds[i])}
			for _, z := range records[i].Val() {
				member := fmt.Sprint(z.Member)
				if len(member) != 21 || member[0] != 16 {
					return st, fmt.Errorf("compare: %q is no record of Redisson 3.21 and later", member)
				}
				permits, err := wire.Permits(member)
				if err != nil {
					return st, err
				}
				by := byJava
				if _, recognised := wire.Recognise(member); recognised {
					by = byGo
				}
				st.pairs[i].records = append(st.pairs[i].records,
					grants.Grant{At: int64(z.Score), Permits: permits, Of: by})
			}
		}
		return st, nil
	}
}

// end returns when a key with this PTTL expires.
func end(pttl *redis.DurationCmd) int64 {
	if ttl := pttl.Val(); ttl >= 0 {
		return time.Now().Add(ttl).UnixMilli()
	}
	return 0
}
