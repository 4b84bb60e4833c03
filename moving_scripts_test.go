package rratelimiter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A moment is one script call about a limiter whose sorted set may be empty
// afterwards.
type moment struct {
	what    string
	sc      *script
	a, b    any
	resent  any
	more    []any
	members []redis.Z // the records before
	keep    int
}

// moments are calls of each script that looks at records, by one format and with
// or without a mark. Of `own` and `merged` the sorted set holds no other record.
func moments(f RecordFormat, now int64, keep int) (all []moment) {
	l := layouts[f]
	own, garbage := string(l.append(nil, 5, false)), "abc"
	merged := string(l.append(nil, 5, true))
	other := "\x10abcdefghijklmnop\x05\x00\x00\x00"
	z := func(at int64, member string) []redis.Z { return []redis.Z{{Score: float64(at), Member: member}} }
	const slot = 3_600_000
	end := (now/slot + 1) * slot
	next := l.append(nil, 2, true)
	mark := fmt.Sprintf("merged:x 7 %d", slot)
	add := func(what string, sc *script, a, b, resent any, members []redis.Z, more ...any) {
		all = append(all, moment{fmt.Sprintf("%v, %s", f, what), sc, a, b, resent, more, members, keep})
	}
	old := now - 2*slot
	add("acquire", acquireScript, 2, l.append(nil, 2, false), "", z(now, other))
	add("acquire, all expired", acquireScript, 2, l.append(nil, 2, false), "", z(old, other))
	add("acquire, refused", acquireScript, 7, l.append(nil, 7, false), "", z(now, other))
	add("acquire, refused as all expired", acquireScript, 70, l.append(nil, 7, false), "", z(old, other))
	add("marked acquire", markedAcquireScript, 2, next, "", z(end, merged), mark)
	add("marked acquire, all expired", markedAcquireScript, 2, next, "", z(old, merged), mark)
	add("marked acquire, refused", markedAcquireScript, 7, next, "", z(end, merged), mark)
	for _, n := range []int{1, 5, 9} {
		add(fmt.Sprint("release ", n), releaseScript, n, "released:1", "", z(now, own), "c")
		add(fmt.Sprint("release ", n, ", all expired"), releaseScript, n, "released:1", "", z(old, own), "c")
		add(fmt.Sprint("give back ", n), giveBackScript, 5, []byte(own), 10, z(now, own), n, "released:2", "c")
		add(fmt.Sprint("marked give back ", n), markedGiveBackScript, 5, []byte(merged), 10, z(end, merged), mark, n, "released:2", "c")
	}
	for _, left := range []int{0, 2} {
		add(fmt.Sprint("withdraw to ", left), withdrawScript, 5, []byte(own), 10, z(now, own), left, "c")
		add(fmt.Sprint("withdraw to ", left, ", all expired"), withdrawScript, 5, []byte(own), 10, z(old, own), left, "c")
		add(fmt.Sprint("marked withdraw to ", left), markedWithdrawScript, 5, []byte(merged), 10, z(end, merged), mark, left, "c")
	}
	for what, members := range map[string][]redis.Z{"garbage": z(now, garbage), "other": z(now, other), "old": z(old, other), "ahead": z(end+slot, own)} {
		add("repair "+what, repairScript, 0, l.append(nil, 1, false), "", members, l.header, 2000, "c")
		add("repair "+what+", in parts", repairScript, 0, l.append(nil, 1, false), "", members, l.header, 0, "c")
	}
	add("peek", peekScript, 1, "", "", z(now, own))
	for _, state := range []string{"0", "1"} {
		add("set rate, keep state "+state, setRateScript, 20, slot, "", z(old, own), keep, state, "0", "c")
		add("set rate, keep state "+state+", outstanding", setRateScript, 20, slot, "", z(now, own), keep, state, "0", "c")
	}
	add("try to set a rate", trySetRateScript, 20, slot, "", z(now, own), keep)
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
	for _, keep := range []int{0, 7_200_000} {
		for f := range layouts {
			for i, m := range moments(RecordFormat(f), now, keep) {
				base := fmt.Sprint(name, f, i, keep)
				keys := []string{base, base + ":value", base + ":permits"}
				set := func(_ any, err error) {
					if err != nil {
						t.Fatal(m.what, err)
					}
				}
				// By scripts of their own: a command that meets no key is sent on to the other node.
				set(from.Do(ctx, "CLUSTER", "SETSLOT", 0, "STABLE").Result())
				fields := []any{"rate", 10, "interval", 3_600_000, "type", 0, "keepAliveTime", keep}
				if m.sc == trySetRateScript {
					fields = fields[2:]
				}
				set(from.HSet(ctx, keys[0], fields...).Result())
				if m.sc == markedWithdrawScript || m.sc == markedGiveBackScript {
					set(from.HSet(ctx, keys[0], "merged:x", fmt.Sprintf("%d 7 5 %.0f 7", now, m.members[0].Score)).Result())
				}
				set(from.Set(ctx, keys[1], 5, 0).Result())
				set(from.ZAdd(ctx, keys[2], m.members...).Result())
				set(from.Do(ctx, "CLUSTER", "SETSLOT", 0, "MIGRATING", id).Result())
				argv := append([]any{0, m.a, m.b, now, m.resent, ""}, m.more...)
				val, err := from.Eval(ctx, m.sc.source, keys, argv...).Result()
				if err != nil {
					t.Errorf("keep alive %d, %s: %v", keep, m.what, err)
					continue
				}
				set(from.Do(ctx, "CLUSTER", "SETSLOT", 0, "STABLE").Result())
				left, out := from.Get(ctx, keys[1]).Val(), int64(0)
				for _, z := range from.ZRangeWithScores(ctx, keys[2], 0, -1).Val() {
					n, _ := RecordPermits(z.Member.(string))
					out += n
				}
				if m.sc == setRateScript || m.sc == trySetRateScript || m.sc == peekScript {
					continue
				}
				if want := fmt.Sprint(10 - out); left != want && m.what[len(m.what)-7:] != "refused" {
					t.Errorf("keep alive %d, %s: value %s with %d outstanding, answered %v", keep, m.what, left, out, val)
				}
			}
		}
	}
}

// A script that was cut short may have been carried out in part: it is sent again
// as one that says so. What a server says, by its version.
func TestAScriptThatWasCutShort(t *testing.T) {
	for text, want := range map[string]bool{
		"ERR Script attempted to access a non local key in a cluster node script: 6f, on @user_script:12.":                                              true,
		"ERR Error running script (call to f_6f0): @user_script:12: @user_script: 12: Lua script attempted to access a non local key in a cluster node": true,
		"ERR user_script:1: x script: 6f, on @user_script:1.":                                                                                           false, "TRYAGAIN Multiple keys request during rehashing of slot": false, "BADKEY 3 zset": false,
	} {
		err := fmt.Errorf("wrapped: %w", error(serverError(text)))
		if cutShort(err) != want || replyLost(err) != want {
			t.Errorf("%s: %v, %v", text, cutShort(err), replyLost(err))
		}
	}
	if cutShort(errors.New("ERR Script attempted to access a non local key")) {
		t.Error("an error of somebody else was taken for one of Redis")
	}
}

// serverError is an answer of Redis.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}
