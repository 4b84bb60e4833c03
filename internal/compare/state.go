package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/grants"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A state is what Redis holds of one limiter as one client sees it, decoded.
// Times are Unix ms; 0 is never.
type state struct {
	hash  map[string]string // nil if there is none; without the session fields of Go
	ends  int64
	pairs [2]pair // by type: the pair that all clients share, and the client's own
}

// A pair is a value string and the records beside it.
type pair struct {
	value       string // "" if there is none
	valueEnds   int64
	records     grants.Grants // in the order of Redis; each is of byGo or byJava
	recordsEnds int64
}

func (st state) clone() state {
	st.hash = maps.Clone(st.hash)
	for i := range st.pairs {
		st.pairs[i].records = slices.Clone(st.pairs[i].records)
	}
	return st
}

// tidy returns the state without a time to live on keys that do not exist.
func (st state) tidy() state {
	if st.hash == nil {
		st.ends = 0
	}
	for i := range st.pairs {
		p := &st.pairs[i]
		if p.value == "" {
			p.valueEnds = 0
		}
		if len(p.records) == 0 {
			p.records, p.recordsEnds = nil, 0
		}
	}
	return st
}

// inForce returns the pair of the limiter's type.
func (st *state) inForce() *pair { return &st.pairs[st.settings().typ] }

func (p pair) empty() bool { return p.value == "" && len(p.records) == 0 }

// number returns the value string as a number; ok reports whether it is one.
func (p pair) number() (n int64, ok bool) {
	n, err := strconv.ParseInt(p.value, 10, 64)
	return n, err == nil
}

// like reports whether two states are the same to Java.
func (st state) like(other state) bool {
	alike := (st.hash == nil) == (other.hash == nil) && maps.Equal(st.hash, other.hash) &&
		near(st.ends, other.ends)
	for i, p := range st.pairs {
		q := other.pairs[i]
		alike = alike && p.value == q.value &&
			slices.EqualFunc(sorted(p.records), sorted(q.records), same) &&
			near(p.valueEnds, q.valueEnds) && near(p.recordsEnds, q.recordsEnds)
	}
	return alike
}

// sorted returns the records in one order: Redis sorts those of the same ms by their random bytes.
func sorted(records grants.Grants) grants.Grants {
	return slices.SortedFunc(slices.Values(records), func(a, b grants.Grant) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Permits, b.Permits))
	})
}

// same reports whether two records are the same to Java.
func same(a, b grants.Grant) bool { return a.At == b.At && a.Permits == b.Permits }

// settings are the fields of the hash as numbers.
type settings struct {
	typ                  int // of the pair in force
	rate, interval, keep int64
	whole                bool // rate, interval and type exist
}

func (st state) settings() (c settings) {
	number := func(name string) (n int64, found bool) {
		text, found := st.hash[name]
		n, _ = strconv.ParseInt(text, 10, 64)
		return n, found
	}
	var rated, timed, typed bool
	c.rate, rated = number("rate")
	c.interval, timed = number("interval")
	_, typed = number("type")
	c.keep, _ = number("keepAliveTime")
	c.whole = rated && timed && typed
	if st.hash["type"] == "1" {
		c.typ = 1
	}
	return c
}

// near reports whether two expiries are equal within a minute. The clock of the
// server sets them while the test runs; those that the generator sets are further
// apart.
func near(a, b int64) bool { return (a == 0) == (b == 0) && max(a-b, b-a) < time.Minute.Milliseconds() }

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
