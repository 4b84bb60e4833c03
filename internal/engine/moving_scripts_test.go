package engine

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// An hour is the interval of the limiters here, and the slot of a resolution, in ms.
const hour = 3_600_000

// A moment is one script call on a limiter. The sorted set may be empty after it.
type moment struct {
	what    string
	sc      *redisx.Script
	args    given
	session string    // the text of the session before the call
	members []redis.Z // the records before the call
}

// A scene collects moments in one format, with or without a resolution.
type scene struct {
	format  int
	layout  wire.Layout
	coarse  bool   // there is a resolution
	now     int64  // Unix ms
	at, old int64  // the time of records that count, and of expired ones
	granted string // the session after a grant of 5 permits by the request before
	all     []moment
}

// moments returns calls of each script that looks at records.
func moments(f int, now int64, keep int, coarse bool) []moment {
	sc := &scene{format: f, layout: wire.Layouts[f], coarse: coarse, now: now, at: now, old: now - 2*hour}
	if coarse {
		sc.at = (now/hour + 1) * hour
	}
	sc.granted = fmt.Sprintf("%d 8 5 %d", now, sc.at)

	// The record all holds the 5 permits of the grant; first and second hold them together.
	all := sc.record(5)
	first, second := sc.record(2), sc.record(3)
	const garbage, other = "abc", "\x10abcdefghijklmnop\x05\x00\x00\x00"
	for when, members := range map[string][]redis.Z{
		"":                   scored(sc.at, all),
		", of others":        scored(now, other),
		", two":              scored(sc.at, first, second),
		", and an old one":   append(scored(sc.old, other), scored(sc.at, all)...),
		", all expired":      scored(sc.old, all),
		", two, all expired": scored(sc.old, first, second),
	} {
		sc.requests(when, members)
		sc.withdrawals(when, members)
		sc.copies(when, members)
	}
	for what, members := range map[string][]redis.Z{
		"garbage": scored(now, garbage), "other": scored(now, other),
		"old": scored(sc.old, other), "ahead": scored(now+3*hour, all),
	} {
		sc.repairs(what, members)
	}
	sc.add("peek", peekScript, sc.granted, scored(now, all), given{argPermits: 1})
	sc.rates(keep, all)
	return sc.all
}

// record returns a record of Go.
func (sc *scene) record(permits uint32) string {
	return string(sc.layout.Append(nil, permits, sc.coarse))
}

// scored returns records of one time.
func scored(at int64, members ...string) (all []redis.Z) {
	for _, m := range members {
		all = append(all, redis.Z{Score: float64(at), Member: m})
	}
	return all
}

// add adds a call with the arguments that all scripts have.
func (sc *scene) add(what string, script *redisx.Script, session string, members []redis.Z, args given) {
	args[argSession], args[argNow], args[argChannel] = "session:x", sc.now, "c"
	if sc.coarse && script == acquireScript {
		args[argResolution] = hour
	}
	what = fmt.Sprintf("%v, resolution %v, %s", sc.format, sc.coarse, what)
	sc.all = append(sc.all, moment{what, script, args, session, members})
}

// takes returns the arguments of an acquire, and more.
func (sc *scene) takes(n int64, more given) given {
	records := sc.layout.AppendAll(nil, n, sc.coarse)
	args := given{argNumber: wire.Number(9), argPermits: n, argRecords: records}
	maps.Copy(args, more)
	return args
}

// gives returns the arguments of a release, and more.
func gives(n int64, more given) given {
	args := given{argNumber: wire.Number(9), argPermits: n, argRecords: ""}
	maps.Copy(args, more)
	return args
}

// requests adds acquires and releases that come after a grant.
func (sc *scene) requests(when string, members []redis.Z) {
	for _, n := range []int64{1, 2, 5, 7, 70} {
		for what, more := range map[string]given{
			"":                               {},
			", sent again":                   {argResent: 10},
			", withdraws all":                {argAfter: wire.Number(7), argKept: int64(keptAll)},
			", withdraws a part":             {argAfter: wire.Number(8), argKept: 2},
			", withdraws a part, sent again": {argAfter: wire.Number(8), argKept: 3, argResent: 10},
			", withdraws nothing":            {argAfter: wire.Number(8), argKept: int64(keptAll)},
		} {
			what := fmt.Sprint("acquire ", n, what, when)
			sc.add(what, acquireScript, sc.granted, members, sc.takes(n, more))
			sc.add(fmt.Sprint("release ", n, what, when), releaseScript, sc.granted, members, gives(n, more))
		}
	}
}

// withdrawals adds releases of nothing that withdraw a part of the grant.
func (sc *scene) withdrawals(when string, members []redis.Z) {
	for _, kept := range []int64{0, 2, 5, 7} {
		args := gives(0, given{argAfter: wire.Number(8), argKept: kept})
		sc.add(fmt.Sprint("withdraw to ", kept, when), releaseScript, sc.granted, members, args)
	}
}

// copies adds second copies of requests that were carried out, or are late.
func (sc *scene) copies(when string, members []redis.Z) {
	for what, session := range map[string]string{
		"acquire": fmt.Sprintf("%s %d 5 %d", wire.Number(9), sc.now, sc.at),
		"release": fmt.Sprintf("%s %d -5 0", wire.Number(9), sc.now),
		"later":   fmt.Sprintf("%s %d 5 %d", wire.Number(10), sc.now, sc.at),
	} {
		again := given{argResent: 10, argAfter: wire.Number(7), argKept: int64(keptAll)}
		done := fmt.Sprint("acquire, done as ", what, when)
		sc.add(done, acquireScript, session, members, sc.takes(5, again))
		sc.add(fmt.Sprint("release, done as ", what, when), releaseScript, session, members, gives(5, again))
	}
}

func (sc *scene) repairs(what string, members []redis.Z) {
	pattern := sc.layout.Append(nil, 1, false)
	for _, most := range []int{2000, 0} {
		args := given{argPermits: 0, argRecords: pattern, 12: sc.layout.Header, 13: most}
		sc.add(fmt.Sprint("repair ", what, ", at once ", most), repairScript, sc.granted, members, args)
	}
}

// rates adds calls that set the rate. Their ARGV[2] is that rate.
func (sc *scene) rates(keep int, all string) {
	const rate = 20
	for _, state := range []string{"0", "1"} {
		for what, at := range map[string]int64{"old": sc.old, "outstanding": sc.now} {
			what = "set rate, keep state " + state + ", " + what
			args := given{3: hour, 4: keep, 5: state, 7: "0"}
			sc.add(what, setRateScript, sc.granted, scored(at, all), args)
			args[argSession] = rate
		}
	}
	args := given{3: hour, 4: keep}
	sc.add("try to set a rate", trySetRateScript, sc.granted, scored(sc.now, all), args)
	args[argSession] = rate
}

// A script never names a key after it may have removed it. In a slot that is moving, the
// script would be cut short there, and what it had removed would be lost.
func TestNoScriptNamesAKeyItHasRemoved(t *testing.T) {
	m := newMigrating(t)
	calls := 0
	for _, keep := range []int{0, 2 * hour} {
		for f := range wire.Layouts {
			for _, coarse := range []bool{false, true} {
				if keep > 0 && f > 0 {
					continue // the keep alive does not depend on the format
				}
				for _, call := range moments(f, m.now, keep, coarse) {
					calls++
					m.try(call, keep, fmt.Sprint(m.tag, calls))
				}
			}
		}
	}
	t.Logf("%d calls", calls)
}

// migrating is a node of a cluster, and a slot that can begin to move away from it.
type migrating struct {
	*testing.T
	from *redis.Client
	to   string // the id of the other node
	tag  string // in each name, so that it is in the slot
	now  int64  // Unix ms
}

func newMigrating(t *testing.T) *migrating {
	t.Helper()
	cluster := redistest.StartCluster(t)
	m := &migrating{T: t, from: cluster.Servers[0].Admin(), tag: "{06S}", now: time.Now().UnixMilli()}
	m.to = cluster.Servers[1].Admin().ClusterMyID(t.Context()).Val()
	if slot := cluster.Client(t).ClusterKeySlot(t.Context(), m.tag).Val(); slot != 0 {
		t.Fatal("slot", slot)
	}
	m.moves(true)
	return m
}

// moves begins the move of the slot, or calls it off.
func (m *migrating) moves(yes bool) {
	m.Helper()
	args := []any{"CLUSTER", "SETSLOT", 0, "STABLE"}
	if yes {
		args = []any{"CLUSTER", "SETSLOT", 0, "MIGRATING", m.to}
	}
	m.must(m.from.Do(m.Context(), args...).Err())
}

func (m *migrating) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// try makes a call while the slot is moving. The script must not be cut short, and the
// value must be right after it.
func (m *migrating) try(call moment, keep int, name string) {
	m.Helper()
	ctx := m.Context()
	keys := []string{name, name + ":value", name + ":permits"}
	m.moves(false) // while a slot moves, a command that finds no key is sent on to the other node
	fields := []any{"rate", 10, "interval", hour, "type", 0, "keepAliveTime", keep, "session:x", call.session}
	if call.sc == trySetRateScript {
		fields = fields[2:]
	}
	m.must(m.from.HSet(ctx, keys[0], fields...).Err())
	m.must(m.from.Set(ctx, keys[1], 5, 0).Err())
	m.must(m.from.ZAdd(ctx, keys[2], call.members...).Err())
	m.moves(true)
	reply, err := m.from.Eval(ctx, call.sc.Source, keys, call.args.argv(wire.Overall)...).Result()
	if err != nil {
		m.Errorf("keep alive %d, %s: %v", keep, call.what, err)
		return
	}
	m.moves(false)
	value := m.from.Get(ctx, keys[1]).Val()
	records := m.from.ZRangeWithScores(ctx, keys[2], 0, -1).Val()
	if call.leavesValue(value, records) {
		return
	}
	if out := outstanding(records, m.now); value != fmt.Sprint(10-out) {
		m.Errorf("keep alive %d, %s: value %s with %d outstanding, replied %v",
			keep, call.what, value, out, reply)
	}
}

// leavesValue reports whether the value may be that of before the call: the script does
// not write it, or nothing was to be written.
func (call moment) leavesValue(value string, records []redis.Z) bool {
	switch call.sc {
	case setRateScript, trySetRateScript, peekScript:
		return true
	case acquireScript, releaseScript:
		isNew := func(z redis.Z) bool { return !slices.Contains(call.members, z) }
		return value == "5" && len(records) == len(call.members) && !slices.ContainsFunc(records, isNew)
	}
	return false
}

// outstanding returns the permits of the records that have not expired.
func outstanding(records []redis.Z, now int64) (sum int64) {
	for _, z := range records {
		if int64(z.Score)+hour > now {
			n, _ := wire.Permits(z.Member.(string))
			sum += n
		}
	}
	return sum
}
