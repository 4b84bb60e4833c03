package rratelimiter

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A moment is one script call about a limiter whose sorted set may be empty
// afterwards.
type moment struct {
	what    string
	sc      *redisx.Script
	args    given
	session string    // what the hash has of it before
	members []redis.Z // the records before
}

// moments are calls of each script that looks at records, in one format, with or
// without a resolution. Of `own` the sorted set holds no other record, nor of
// `first` and `second` together.
func moments(f RecordFormat, now int64, keep int, coarse bool) (all []moment) {
	const slot = 3_600_000
	l, at, old := wire.Layouts[f], now, now-2*slot
	if coarse {
		at = (now/slot + 1) * slot
	}
	own, first, second := string(l.Append(nil, 5, coarse)), string(l.Append(nil, 2, coarse)), string(l.Append(nil, 3, coarse))
	garbage, other := "abc", "\x10abcdefghijklmnop\x05\x00\x00\x00"
	z := func(at int64, members ...string) (all []redis.Z) {
		for _, m := range members {
			all = append(all, redis.Z{Score: float64(at), Member: m})
		}
		return all
	}
	add := func(what string, sc *redisx.Script, session string, members []redis.Z, args given) {
		args[argSession], args[argNow], args[argChannel] = "session:x", now, "c"
		if coarse && sc == acquireScript {
			args[argSlot] = slot
		}
		all = append(all, moment{fmt.Sprintf("%v, resolution %v, %s", f, coarse, what), sc, args, session, members})
	}
	takes := func(n int64) given {
		return given{argNumber: wire.Number(9), argPermits: n, argRecords: l.AppendAll(nil, n, coarse)}
	}
	gives := func(n int64) given { return given{argNumber: wire.Number(9), argPermits: n, argRecords: ""} }
	with := func(more, to given) given {
		maps.Copy(to, more)
		return to
	}
	granted := fmt.Sprintf("%d 8 5 %d", now, at) // by the request before
	for when, members := range map[string][]redis.Z{
		"": z(at, own), ", of others": z(now, other), ", two": z(at, first, second), ", and an old one": append(z(old, other), z(at, own)...),
		", all expired": z(old, own), ", two, all expired": z(old, first, second),
	} {
		for _, n := range []int64{1, 2, 5, 7, 70} {
			for what, more := range map[string]given{
				"": {}, ", sent again": {argResent: 10}, ", withdraws all": {argAfter: wire.Number(7), argKept: int64(keptAll)},
				", withdraws a part": {argAfter: wire.Number(8), argKept: 2}, ", withdraws a part, sent again": {argAfter: wire.Number(8), argKept: 3, argResent: 10},
				", withdraws nothing": {argAfter: wire.Number(8), argKept: int64(keptAll)},
			} {
				add(fmt.Sprint("acquire ", n, what, when), acquireScript, granted, members, with(more, takes(n)))
				add(fmt.Sprint("release ", n, what, when), releaseScript, granted, members, with(more, gives(n)))
			}
		}
		for _, kept := range []int64{0, 2, 5, 7} {
			add(fmt.Sprint("withdraw to ", kept, when), releaseScript, granted, members, with(given{argAfter: wire.Number(8), argKept: kept}, gives(0)))
		}
		for what, session := range map[string]string{"acquire": fmt.Sprintf("%s %d 5 %d", wire.Number(9), now, at), "release": fmt.Sprintf("%s %d -5 0", wire.Number(9), now), "later": fmt.Sprintf("%s %d 5 %d", wire.Number(10), now, at)} {
			again := given{argResent: 10, argAfter: wire.Number(7), argKept: int64(keptAll)}
			add(fmt.Sprint("acquire, done as ", what, when), acquireScript, session, members, with(again, takes(5)))
			add(fmt.Sprint("release, done as ", what, when), releaseScript, session, members, with(again, gives(5)))
		}
	}
	for what, members := range map[string][]redis.Z{"garbage": z(now, garbage), "other": z(now, other), "old": z(old, other), "ahead": z(now+3*slot, own)} {
		pattern := l.Append(nil, 1, false)
		for _, most := range []int{2000, 0} {
			add(fmt.Sprint("repair ", what, ", at once ", most), repairScript, granted, members,
				given{argPermits: 0, argRecords: pattern, 12: l.Header, 13: most})
		}
	}
	add("peek", peekScript, granted, z(now, own), given{argPermits: 1})
	for _, state := range []string{"0", "1"} {
		for what, members := range map[string][]redis.Z{"old": z(old, own), "outstanding": z(now, own)} {
			add("set rate, keep state "+state+", "+what, setRateScript, granted, members, given{3: slot, 4: keep, 5: state, 7: "0"})
			m := &all[len(all)-1]
			m.args[argSession] = 20 // ARGV[2] is the rate
		}
	}
	add("try to set a rate", trySetRateScript, granted, z(now, own), given{3: slot, 4: keep})
	all[len(all)-1].args[argSession] = 20
	return all
}

// A script names no key that it may have removed: where the slot of a cluster is
// moving, it would end in its midst, and what it had removed be lost.
func TestNoScriptNamesAKeyItHasRemoved(t *testing.T) {
	cluster := redistest.StartCluster(t)
	rdb := cluster.Client(t)
	ctx := t.Context()
	now := time.Now().UnixMilli()
	from, to := cluster.Servers[0].Admin(), cluster.Servers[1].Admin()
	id := to.ClusterMyID(ctx).Val()
	const name = "{06S}" // a tag of slot 0, by which all are on the first node
	if slot := rdb.ClusterKeySlot(ctx, name).Val(); slot != 0 {
		t.Fatal("slot", slot)
	}
	if err := from.Do(ctx, "CLUSTER", "SETSLOT", 0, "MIGRATING", id).Err(); err != nil {
		t.Fatal(err)
	}
	set := func(what string) func(any, error) {
		return func(_ any, err error) {
			t.Helper()
			if err != nil {
				t.Fatal(what, err)
			}
		}
	}
	i := 0
	try := func(m moment, keep int) {
		i++
		base := fmt.Sprint(name, i)
		keys, set := []string{base, base + ":value", base + ":permits"}, set(m.what)
		// By scripts of their own: a command that meets no key is sent on to the other node.
		set(from.Do(ctx, "CLUSTER", "SETSLOT", 0, "STABLE").Result())
		fields := []any{"rate", 10, "interval", 3_600_000, "type", 0, "keepAliveTime", keep, "session:x", m.session}
		if m.sc == trySetRateScript {
			fields = fields[2:]
		}
		set(from.HSet(ctx, keys[0], fields...).Result())
		set(from.Set(ctx, keys[1], 5, 0).Result())
		set(from.ZAdd(ctx, keys[2], m.members...).Result())
		set(from.Do(ctx, "CLUSTER", "SETSLOT", 0, "MIGRATING", id).Result())
		val, err := from.Eval(ctx, m.sc.Source, keys, m.args.argv(Overall)...).Result()
		if err != nil {
			t.Errorf("keep alive %d, %s: %v", keep, m.what, err)
			return
		}
		set(from.Do(ctx, "CLUSTER", "SETSLOT", 0, "STABLE").Result())
		left, out := from.Get(ctx, keys[1]).Val(), int64(0)
		records := from.ZRangeWithScores(ctx, keys[2], 0, -1).Val()
		for _, z := range records {
			if int64(z.Score)+3_600_000 <= now {
				continue
			}
			n, _ := RecordPermits(z.Member.(string))
			out += n
		}
		switch m.sc {
		case setRateScript, trySetRateScript, peekScript:
			return
		case acquireScript, releaseScript: // where nothing was to be written, the value may be that of before
			before := make(map[redis.Z]bool)
			for _, z := range m.members {
				before[z] = true
			}
			same := left == "5" && len(records) == len(before)
			for _, z := range records {
				same = same && before[z]
			}
			if same {
				return
			}
		}
		if want := fmt.Sprint(10 - out); left != want {
			t.Errorf("keep alive %d, %s: value %s with %d outstanding, answered %v", keep, m.what, left, out, val)
		}
	}
	for _, keep := range []int{0, 7_200_000} {
		for f := range wire.Layouts {
			for _, coarse := range []bool{false, true} {
				if keep > 0 && f > 0 {
					continue // what keeps them alive does not know of formats
				}
				for _, m := range moments(RecordFormat(f), now, keep, coarse) {
					try(m, keep)
				}
			}
		}
	}
	t.Logf("%d calls", i)
}
