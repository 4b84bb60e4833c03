package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		rdb := redistest.MiniClient(t, m)
		l := limiter(t, rdb, rratelimiter.Overall, 20, 10*time.Second)
		start := time.Now()
		take(t, l, 3)
		time.Sleep(2 * time.Second)
		take(t, l, 16)
		put(t, rdb, "{"+l.Name()+"}:permits", javaRecord(1, 1), 0)
		m.Set("{"+l.Name()+"}:value", "0")
		time.Sleep(time.Second)
		got := look(t, rdb, l.Name())

		if !got.Set || got.Config.Type != "OVERALL" || got.Config.Rate != 20 || got.Config.Interval != 10_000 ||
			got.Name != l.Name() || !got.At.Equal(start.Add(3*time.Second)) || got.Fields != 5 {
			t.Errorf("%+v", got)
		}
		if len(got.Findings) != 0 || !got.Holds() {
			t.Errorf("found %+v", got.Findings)
		}
		keys := []inspect.Key{
			{Name: l.Name(), Kind: "hash", TTL: -1},
			{Name: "{" + l.Name() + "}:value", Kind: "string", TTL: -1},
			{Name: "{" + l.Name() + "}:permits", Kind: "zset", TTL: -1},
		}
		if !slices.Equal(got.Keys, keys) {
			t.Errorf("%+v", got.Keys)
		}
		if s := got.Sessions; len(s) != 1 || s[0].Number != 2 || s[0].Amount != 16 ||
			!s[0].At.Equal(start.Add(2*time.Second)) {
			t.Errorf("%+v", s)
		}
		p := got.Shared()
		if len(p.Records) != 3 || p.Total != 3 || p.Unread != 0 || p.Outstanding != 20 || p.Remaining != 0 ||
			p.Number != 0 || !p.Checked || p.Drift != 0 {
			t.Fatalf("%+v", p)
		}
		first := p.Records[0]
		if !first.At.Equal(start) || first.Permits != 3 || first.Format != "Bc0I/16" || !first.ByGo || first.Over {
			t.Errorf("%+v", first)
		}
		java := slices.IndexFunc(p.Records, func(r inspect.Record) bool { return !r.ByGo })
		if java < 1 || p.Records[java].Permits != 1 {
			t.Errorf("%+v", p.Records)
		}
		want := []inspect.Return{{Permits: 1, In: 7000}, {Permits: 2, In: 7000}, {Permits: 20, In: 9000}}
		if !slices.Equal(p.Back, want) {
			t.Errorf("back: %+v", p.Back)
		}

		time.Sleep(8 * time.Second) // the first is over, and nobody has removed it
		p = look(t, rdb, l.Name()).Shared()
		if !p.Records[0].Over || p.Over != 3 || p.Outstanding != 17 || p.Remaining != 3 || p.Drift != 0 {
			t.Errorf("%+v", p)
		}
	})
}

// What is not there is told as that, not as an error.
func TestReadNothing(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	got := look(t, rdb, "x", "me")
	if got.Set || len(got.Findings) != 0 || len(got.Pairs) != 2 || len(got.Keys) != 5 {
		t.Errorf("%+v", got)
	}
	if got.Keys[0] != (inspect.Key{Name: "x", Kind: "none", TTL: -2}) || got.Keys[0].There() {
		t.Errorf("%+v", got.Keys[0])
	}
}

func TestReadRefuses(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	for _, n := range []int{-1, 0, 1, inspect.Most + 1} {
		if _, err := inspect.Read(t.Context(), rdb, "x", n); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("records is %d, must be between 2 and 100000", n)) {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestReadPerClient(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	l := limiter(t, rdb, rratelimiter.PerClient, 5, time.Minute)
	take(t, l, 2)
	got := look(t, rdb, l.Name(), "me", "other")
	if !got.Config.PerClient() || len(got.InUse()) != 2 || got.Shared().Total != 0 || len(got.Findings) != 0 {
		t.Errorf("%+v", got)
	}
	if p := got.PairOf("me"); p.Outstanding != 2 || p.Remaining != 3 || !p.Checked {
		t.Errorf("%+v", p)
	}
	if p := got.PairOf("other"); p.Outstanding != 0 || p.Remaining != 5 || p.HasValue {
		t.Errorf("%+v", p)
	}
	if got.PairOf("third") != nil {
		t.Error("a pair that was not read")
	}
}

// reads are the commands by which a limiter may be looked at. hello and client are go-redis's.
var reads = []string{"multi", "exec", "time", "type", "pttl", "hmget", "hlen", "hscan", "getrange", "zcard",
	"zrange", "scan", "hello", "client"}

// Nothing is written, and a look is one round trip.
func TestReadOnlyReads(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	l := limiter(t, rdb, rratelimiter.PerClient, 5, time.Minute)
	take(t, l, 2)
	var trips roundTrips
	rdb.AddHook(&trips)
	stop := s.Monitor(t)
	look(t, rdb, l.Name(), "me") // go-redis introduces itself at the first one
	trips.Store(0)
	for range 3 {
		look(t, rdb, l.Name(), "me")
	}
	if n := trips.Load(); n != 3 {
		t.Errorf("%d round trips for 3 looks", n)
	}
	found, _, err := inspect.Scan{}.Limiters(t.Context(), rdb)
	if err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
	if ids, err := inspect.Clients(t.Context(), rdb, l.Name()); err != nil || !slices.Equal(ids, []string{"me"}) {
		t.Errorf("%v, %v", ids, err)
	}
	commands := stop()
	for _, name := range commands {
		if !slices.Contains(reads, name) {
			t.Errorf("%s was carried out", name)
		}
	}
	if n := len(commands); n < 30 {
		t.Errorf("only %d commands", n)
	}
}

// roundTrips counts the requests of a client.
type roundTrips struct{ atomic.Int64 }

func (*roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.Add(1)
		return next(ctx, cmd)
	}
}

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.Add(1)
		return next(ctx, cmds)
	}
}

// However many records there are, a bounded part of them is read, and it is said.
func TestReadAMillionRecords(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	l := limiter(t, rdb, rratelimiter.Overall, 1<<30, time.Hour)
	const size = 1_000_000
	fill := redis.NewScript(`
		for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
			redis.call('ZADD', KEYS[1], ARGV[3] + i, string.format('\16%016d\1\0\0\0', i))
		end
		redis.call('SET', KEYS[2], ARGV[4] - ARGV[2])`)
	start := time.Now().Add(-30 * time.Minute).UnixMilli()
	for from := 1; from <= size; from += 10_000 {
		if err := fill.Run(t.Context(), rdb, []string{"{" + l.Name() + "}:permits", "{" + l.Name() + "}:value"},
			from, from+9999, start, 1<<30).Err(); err != nil && err != redis.Nil {
			t.Fatal(err)
		}
	}
	got := look(t, rdb, l.Name())
	p := got.Shared()
	if len(p.Records) != inspect.Few || p.Total != size || p.Unread != size-inspect.Few || p.Gap != inspect.Few/2 ||
		p.Checked {
		t.Fatalf("%d records of %d, %d unread, gap at %d", len(p.Records), p.Total, p.Unread, p.Gap)
	}
	if first, last := p.Records[0].At.UnixMilli(), p.Records[inspect.Few-1].At.UnixMilli(); first != start+1 ||
		last != start+size {
		t.Errorf("from %d to %d; started at %d", first, last, start)
	}
	if p.Remaining != 1<<30-size {
		t.Errorf("%d remaining", p.Remaining)
	}
	if b := p.Back; len(b) != 3 || b[0].In != 0 || b[2].In < 1000 {
		t.Errorf("back: %+v", b)
	}
	if f := got.Findings; len(f) != 1 || !f[0].Remark || !strings.Contains(f[0].What, "999000 of 1000000 records") {
		t.Errorf("found %+v", f)
	}
}

// A hash, a value and records of anybody's make no panic, and can be printed as JSON.
func FuzzRead(f *testing.F) {
	f.Add("5", "1000", "0", "x", "5", []byte("\x10abcdefghijklmnop\x01\x00\x00\x00"), 1e12, uint8(1))
	f.Add("1e300", "-1", "1", "", "1e+17", []byte("abc"), math.Inf(1), uint8(7))
	f.Add("9007199254740992", "9007199254740992", "2", "0", "-9007199254740992", []byte{}, math.Inf(-1), uint8(3))
	f.Fuzz(func(t *testing.T, rate, interval, typ, session, value string, record []byte, score float64, n uint8) {
		if math.IsNaN(score) {
			return
		}
		ctx := t.Context()
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		rdb.HSet(ctx, "x", "rate", rate, "interval", interval, "type", typ, "session:A", session)
		rdb.Set(ctx, "{x}:value", value, 0)
		for i := range n {
			member := append(slices.Clone(record), i)
			rdb.ZAdd(ctx, "{x}:permits", redis.Z{Score: score + float64(i), Member: member})
		}
		l, err := inspect.Read(ctx, rdb, "x", 4, "me")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(l); err != nil {
			t.Error(err)
		}
		if p := l.Shared(); p.Remaining < 0 || int64(len(p.Records))+p.Unread != p.Total {
			t.Errorf("%+v", p)
		}
		l.Since(l, "")
	})
}

// On a cluster and on a Ring, all that is read of a limiter comes from the server that has it.
func TestReadOnManyServers(t *testing.T) {
	c := redistest.StartCluster(t)
	a, b := redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr, "b": b.Addr}})
	defer ring.Close()
	for kind, rdb := range map[string]redis.UniversalClient{"cluster": c.Client(t), "ring": ring} {
		client := rratelimiter.New(rdb, rratelimiter.WithID("me"))
		defer client.Close()
		var names []string
		for i := range 12 {
			name := fmt.Sprintf("limiter-%02d", i)
			names = append(names, name)
			l := client.RateLimiter(name)
			if err := l.SetRate(t.Context(), rratelimiter.PerClient, 5, time.Minute); err != nil {
				t.Fatal(err)
			}
			take(t, l, 2)
			if p := look(t, rdb, name, "me").PairOf("me"); p.Remaining != 3 || p.Drift != 0 || !p.Checked {
				t.Errorf("%s, %s: %+v", kind, name, p)
			}
			if ids, err := inspect.Clients(t.Context(), rdb, name); err != nil || len(ids) != 1 || ids[0] != "me" {
				t.Errorf("%s, %s: %v, %v", kind, name, ids, err)
			}
		}
		found, _, err := inspect.Scan{}.Limiters(t.Context(), rdb)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range found {
			if l.Clients != 1 || len(l.InUse()) != 1 || l.InUse()[0].Outstanding != 2 {
				t.Errorf("%s: %+v", kind, l)
			}
		}
		if got := namesOf(found); !slices.Equal(got, names) {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

func namesOf(limiters []*inspect.Limiter) (names []string) {
	for _, l := range limiters {
		names = append(names, l.Name)
	}
	return names
}

// Records of all formats are known, by Go or by another.
func TestRecordsOfAllFormats(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	l := limiter(t, rdb, rratelimiter.Overall, 100, time.Minute)
	for i := range wire.Layouts {
		record := wire.Layouts[i].Append(nil, uint32(i+1), i == 0)
		put(t, rdb, "{"+l.Name()+"}:permits", string(record), time.Duration(10-i)*time.Second)
	}
	put(t, rdb, "{"+l.Name()+"}:permits", "not a record", 0)
	for i, r := range look(t, rdb, l.Name()).Shared().Records {
		if i == len(wire.Layouts) {
			if r.Format != "" || r.ByGo {
				t.Errorf("%+v", r)
			}
		} else if r.Format != wire.Layouts[i].Name || !r.ByGo || r.Permits != int64(i+1) {
			t.Errorf("%d: %+v", i, r)
		}
	}
}

// A right that is missing is named.
func TestReadWithoutARight(t *testing.T) {
	s := redistest.Start(t)
	s.Admin().Do(t.Context(), "ACL", "SETUSER", "app", "on", "nopass", "~*", "+@all", "-zcard")
	rdb := s.Client(t, func(o *redis.Options) { o.Username, o.Password = "app", "any" })
	if _, err := inspect.Read(t.Context(), rdb, "x", inspect.Few); err == nil ||
		!strings.Contains(err.Error(), "NOPERM") || !strings.Contains(err.Error(), "zcard") {
		t.Error(err)
	}
}
