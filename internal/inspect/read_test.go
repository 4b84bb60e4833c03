package inspect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
		keys := wire.KeysOf(l.Name(), "").Pairs[0]
		start := time.Now().UTC()
		take(t, l, 3)
		time.Sleep(2 * time.Second)
		take(t, l, 16)
		put(t, rdb, keys.Permits, redistest.JavaRecord(1, 1), -time.Second)
		m.Set(keys.Value, "0")
		time.Sleep(time.Second)
		got := look(t, rdb, l.Name())
		if got.At.Location() != time.UTC { // as all its times are, whatever the zone of the machine
			t.Error(got.At)
		}
		want := &inspect.Limiter{
			Name: l.Name(), At: start.Add(3 * time.Second), Set: true, Fields: 5,
			Config: inspect.Config{Type: "OVERALL", Rate: 20, Interval: 10_000},
			Keys: []inspect.Key{
				{Name: l.Name(), Kind: "hash", TTL: -1},
				{Name: keys.Value, Kind: "string", TTL: -1},
				{Name: keys.Permits, Kind: "zset", TTL: -1},
			},
			Sessions: []inspect.Session{
				{Field: got.Sessions[0].Field, Number: 2, At: start.Add(2 * time.Second), Amount: 16},
			},
			Pairs: []inspect.Pair{{
				HasValue: true, Value: "0", Counts: true, Total: 3, Outstanding: 20, Checked: true,
				Records: []inspect.Record{
					{At: start, Permits: 3, Format: "Bc0I/16", ByGo: true},
					{At: start.Add(2 * time.Second), Permits: 16, Format: "Bc0I/16", ByGo: true},
					{At: start.Add(3 * time.Second), Permits: 1, Format: "Bc0I/16"},
				},
				Back: []inspect.Return{
					{Permits: 1, In: 7000}, {Permits: 2, In: 7000}, {Permits: 20, In: 10_000},
				},
			}},
			Findings: []inspect.Finding{},
		}
		same(t, got, want)

		time.Sleep(8 * time.Second) // the first has expired, and no call has removed it
		got = look(t, rdb, l.Name())
		want.At = want.At.Add(8 * time.Second)
		p := &want.Pairs[0]
		p.Records[0].Over, p.Over, p.Outstanding, p.Remaining = true, 3, 17, 3
		p.Back = []inspect.Return{{Permits: 1}, {Permits: 2}, {Permits: 20, In: 2000}}
		same(t, got, want)
	})
}

// Sessions of the same ms are ordered by their numbers, the highest first, and by their names.
func TestSessionsOfTheSameTime(t *testing.T) {
	const at = " 946684800000 1 0"
	ctx, rdb := t.Context(), redistest.MiniClient(t, redistest.Mini(t))
	for _, fields := range [][]string{{"A", "1", "B", "2", "C", "1"}, {"C", "1", "B", "2", "A", "1"}} {
		rdb.Del(ctx, "x")
		rdb.HSet(ctx, "x", "rate", 5, "interval", 1000, "type", 0)
		for f := range slices.Chunk(fields, 2) {
			rdb.HSet(ctx, "x", sessionOf(f[0]), f[1]+at)
		}
		var got []string
		for _, s := range look(t, rdb, "x").Sessions {
			got = append(got, s.Field)
		}
		if want := []string{sessionOf("B"), sessionOf("A"), sessionOf("C")}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// sessionOf returns the field of a Client whose session ends in a letter.
func sessionOf(letter string) string { return "session:" + strings.Repeat("A", 15) + letter }

// same compares two limiters by their JSON.
func same(t *testing.T, got, want *inspect.Limiter) {
	t.Helper()
	a := redistest.Must(json.MarshalIndent(got, "", " "))(t)
	b := redistest.Must(json.MarshalIndent(want, "", " "))(t)
	if string(a) != string(b) {
		t.Errorf("got %s\nwant %s", a, b)
	}
}

// A missing limiter is no error.
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

func TestReadRefusesBadBounds(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	for _, n := range []int{-1, 0, 1, inspect.Most + 1} {
		_, err := inspect.Read(t.Context(), rdb, "x", n)
		want := fmt.Sprintf("records is %d, must be between 2 and 100000", n)
		if err == nil || !strings.Contains(err.Error(), want) {
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

// reads are the commands that only read. hello and client belong to go-redis.
var reads = []string{"multi", "exec", "time", "type", "pttl", "hmget", "hlen", "hscan", "getrange", "zcard",
	"zrange", "scan", "hello", "client"}

// A look writes nothing and takes one round trip.
func TestReadOnlyReads(t *testing.T) {
	s := redistest.Start(t)
	rdb := s.Client(t)
	l := limiter(t, rdb, rratelimiter.PerClient, 5, time.Minute)
	take(t, l, 2)
	stop := s.Monitor(t)
	look(t, rdb, l.Name(), "me") // go-redis introduces itself at the first one
	trips := redistest.RoundTrips(rdb)
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
	if ids, err := inspect.Clients(t.Context(), rdb, l.Name()); err != nil ||
		!slices.Equal(ids, []string{"me"}) {
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

// A bounded part of many records is read, and a finding says so.
func TestReadAMillionRecords(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	l := limiter(t, rdb, rratelimiter.Overall, 1<<30, time.Hour)
	const size = 1_000_000
	start := time.Now().Add(-30 * time.Minute).UnixMilli()
	fill(t, rdb, l.Name(), start, size)
	got := look(t, rdb, l.Name())
	p := got.Shared()
	if len(p.Records) != inspect.Few || p.Gap != inspect.Few/2 {
		t.Fatalf("%d records, a gap at %d", len(p.Records), p.Gap)
	}
	first, last := p.Records[0].At.UnixMilli(), p.Records[inspect.Few-1].At.UnixMilli()
	if first != start+1 || last != start+size {
		t.Errorf("from %d to %d; started at %d", first, last, start)
	}
	if p.Total != size || p.Unread != size-inspect.Few || p.Checked {
		t.Errorf("%d records, %d unread, checked: %v", p.Total, p.Unread, p.Checked)
	}
	if p.Remaining != 1<<30-size || p.Outstanding != size || p.Back[0].In != 0 || p.Back[2].In < 1000 {
		t.Errorf("%d remaining, %d outstanding, back %+v", p.Remaining, p.Outstanding, p.Back)
	}
	f := got.Findings
	if len(f) != 1 || !f[0].Remark || !strings.Contains(f[0].What, "999000 of 1000000 records are unread") {
		t.Errorf("found %+v", f)
	}
}

// fill writes records of one permit each, one for each ms.
func fill(t *testing.T, rdb *redis.Client, hash string, start int64, records int) {
	t.Helper()
	script := redis.NewScript(`
		for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
			redis.call('ZADD', KEYS[1], ARGV[3] + i, string.format('\16%016d\1\0\0\0', i))
		end
		redis.call('DECRBY', KEYS[2], ARGV[2] - ARGV[1] + 1)`)
	keys := wire.KeysOf(hash, "").Pairs[0]
	rate := rdb.HGet(t.Context(), hash, wire.Rate).Val()
	rdb.Set(t.Context(), keys.Value, rate, 0)
	const part = 10_000
	for from := 1; from <= records; from += part {
		pair := []string{keys.Permits, keys.Value}
		err := script.Run(t.Context(), rdb, pair, from, min(from+part-1, records), start).Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
}

const mySession = "session:QX3NDKZ7A4MHC2TB"

// No contents of the keys cause a panic, and any can be printed as JSON.
func FuzzRead(f *testing.F) {
	f.Add("5", "1000", "0", "x", "5", []byte("\x10abcdefghijklmnop\x01\x00\x00\x00"), 1e12, uint8(1))
	f.Add("1e300", "-1", "1", "", "1e+17", []byte("abc"), math.Inf(1), uint8(7))
	const most = "9007199254740992"
	f.Add(most, most, "2", "0", "-"+most, []byte{}, math.Inf(-1), uint8(3))
	f.Fuzz(func(
		t *testing.T, rate, interval, typ, session, value string, record []byte, score float64, n uint8,
	) {
		if math.IsNaN(score) {
			return
		}
		ctx := t.Context()
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		rdb.HSet(ctx, "x", "rate", rate, "interval", interval, "type", typ,
			mySession, session, mySession+".0", session, "session:freed", session)
		rdb.Set(ctx, "{x}:value", value, 0)
		for i := range n {
			member := append(slices.Clone(record), i)
			rdb.ZAdd(ctx, "{x}:permits", redis.Z{Score: score + float64(i), Member: member})
		}
		l := redistest.Must(inspect.Read(ctx, rdb, "x", 4, "me"))(t)
		if _, err := json.Marshal(l); err != nil {
			t.Error(err)
		}
		for _, s := range l.Sessions {
			if s.Field != mySession {
				t.Errorf("%s is taken for a Client", s.Field)
			}
		}
		if p := l.Shared(); p.Remaining < 0 || int64(len(p.Records))+p.Unread != p.Total {
			t.Errorf("%+v", p)
		}
		l.Since(l, "")
	})
}

// On a cluster and on a Ring, a limiter is read from its server.
func TestReadOnManyServers(t *testing.T) {
	t.Run("cluster", func(t *testing.T) { readOn(t, redistest.StartCluster(t).Client(t)) })
	t.Run("ring", func(t *testing.T) {
		addrs := map[string]string{"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr}
		ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
		defer ring.Close()
		readOn(t, ring)
	})
}

func readOn(t *testing.T, rdb redis.UniversalClient) {
	client := rratelimiter.New(rdb, rratelimiter.WithID("me"))
	defer client.Close()
	var names []string
	for i := range 12 {
		name := fmt.Sprintf("limiter-%02d", i)
		names = append(names, name)
		l := client.RateLimiter(name)
		set(t, l, rratelimiter.PerClient, 5, time.Minute)
		take(t, l, 2)
		if p := look(t, rdb, name, "me").PairOf("me"); p.Remaining != 3 || p.Drift != 0 || !p.Checked {
			t.Errorf("%s: %+v", name, p)
		}
		ids, err := inspect.Clients(t.Context(), rdb, name)
		if err != nil || !slices.Equal(ids, []string{"me"}) {
			t.Errorf("%s: %v, %v", name, ids, err)
		}
	}
	found, _, err := inspect.Scan{}.Limiters(t.Context(), rdb)
	if err != nil || !slices.Equal(namesOf(found), names) {
		t.Fatal(namesOf(found), err)
	}
	for _, l := range found {
		if l.Clients != 1 || len(l.InUse()) != 1 || l.InUse()[0].Outstanding != 2 {
			t.Errorf("%+v", l)
		}
	}
}

func namesOf(limiters []*inspect.Limiter) (names []string) {
	for _, l := range limiters {
		names = append(names, l.Name)
	}
	return names
}

// Records of all formats are recognised, with their author.
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

// If unread records may have expired, remaining is a lower bound; if the newest record has expired, all have.
func TestRemainingOfManyRecords(t *testing.T) {
	rdb := redistest.Start(t).Client(t)
	l := limiter(t, rdb, rratelimiter.Overall, 5000, 10*time.Second)
	now := time.Now().UnixMilli()
	fill(t, rdb, l.Name(), now-13_000, 5000) // 3,000 are over
	p := look(t, rdb, l.Name()).Shared()
	if !p.AtLeast || p.Remaining < inspect.Few/2 || p.Remaining > 3100 {
		t.Errorf("%d, at least: %v", p.Remaining, p.AtLeast)
	}
	fill(t, rdb, l.Name(), now-30_000, 5000)
	permits := wire.KeysOf(l.Name(), "").Pairs[0].Permits
	rdb.ZRemRangeByScore(t.Context(), permits, fmt.Sprint(now-20_000), "+inf")
	if p = look(t, rdb, l.Name()).Shared(); p.AtLeast || p.Remaining != 5000 || p.Outstanding != 0 {
		t.Errorf("%d remain, %d outstanding, at least: %v", p.Remaining, p.Outstanding, p.AtLeast)
	}
}
