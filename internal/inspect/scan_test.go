package inspect_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/inspect"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A list has the limiters among other keys, page by page.
func TestScan(t *testing.T) {
	scanOn(t, redistest.Start(t).Client(t))
	t.Setenv("REDIS_SERVER", redistest.Releases[0].Binary(t)) // it cannot tell keys apart by their kind
	scanOn(t, redistest.Start(t).Client(t))
}

func scanOn(t *testing.T, rdb *redis.Client) {
	c := rratelimiter.New(rdb, rratelimiter.WithID("me"))
	defer c.Close()
	want := []string{}
	for i := range 40 {
		name := fmt.Sprintf("limiter:%02d", i)
		want = append(want, name)
		set(t, c.RateLimiter(name), rratelimiter.Overall, 9, time.Minute)
		take(t, c.RateLimiter(name), 2)
		rdb.HSet(t.Context(), fmt.Sprint("hash", i), "rate", "1")
		rdb.Set(t.Context(), fmt.Sprint("string", i), "1", 0)
		rdb.SAdd(t.Context(), fmt.Sprint("limiter:set", i), "1")
	}
	var last inspect.Progress
	scan := inspect.Scan{Match: "limiter:*", Page: 10, Progress: func(p inspect.Progress) {
		if p.Calls <= last.Calls || p.Keys < last.Keys {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
	}}
	found, done, err := scan.Limiters(t.Context(), rdb)
	if err != nil || !slices.Equal(namesOf(found), want) {
		t.Fatalf("%v, %v", namesOf(found), err)
	}
	if done.Keys < 200 || done.Limiters != 40 || done.Stopped || done != last {
		t.Errorf("%+v, at last %+v", done, last)
	}
	if p := found[7].Shared(); p.Remaining != 7 || p.Outstanding != 2 {
		t.Errorf("%+v", p)
	}
	scan.Limit, scan.Progress = 5, nil
	found, done, err = scan.Limiters(t.Context(), rdb)
	if err != nil || len(found) != 5 || !done.Stopped {
		t.Errorf("%d, %+v, %v", len(found), done, err)
	}
}

// The clients of a PER_CLIENT limiter are counted, and some of them read.
func TestScanClients(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	for i := range inspect.MostClients + 4 {
		c := rratelimiter.New(rdb, rratelimiter.WithID(fmt.Sprintf("id-%02d", i)))
		for _, name := range []string{"a:value:b", "[x]*", "u:{7}"} {
			set(t, c.RateLimiter(name), rratelimiter.PerClient, 9, time.Minute)
			take(t, c.RateLimiter(name), int64(i%9+1))
		}
		_ = c.Close()
	}
	found, done, err := inspect.Scan{}.Limiters(t.Context(), rdb)
	if err != nil || len(found) != 3 {
		t.Fatalf("%v, %+v, %v", namesOf(found), done, err)
	}
	for _, l := range found {
		if l.Clients != inspect.MostClients+4 || len(l.InUse()) != inspect.MostClients ||
			l.InUse()[3].Outstanding != 4 {
			t.Errorf("%s: %d clients, %d read", l.Name, l.Clients, len(l.InUse()))
		}
		ids, err := inspect.Clients(t.Context(), rdb, l.Name)
		if err != nil || len(ids) != inspect.MostClients+4 || ids[0] != "id-00" {
			t.Errorf("%s: %v, %v", l.Name, ids, err)
		}
	}
}
