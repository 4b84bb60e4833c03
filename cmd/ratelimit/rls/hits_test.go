package rls

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A kind is hits of a request.
type kind struct {
	name, flags, requests string
	redis                 string // of all algorithms except concurrency
	concurrency           string
	exactly               string // of rratelimiter without Redis; the others decide as with it
}

// kinds are all kinds of hits, of a limit of 3 an hour, and what comes out: while Redis decides, and without
// it with the fallback local. An empty result is that of redis.
var kinds = []kind{
	{"of a request", "", "a=x; a=x; a=x; a=x", "OK 2; OK 1; OK 0; OVER 0", "", ""},
	{
		"of a descriptor, charged", "", "a=x*2; a=x*2; a=x*0; a=x", "OK 1; OVER 0; OVER 0; OVER 0",
		"OK 1; OVER 1; OK 1; OK 0", "OK 1; OVER 0; OK 0; OK 0",
	},
	{
		"of a descriptor, refused", "charge: false, ", "a=x*2; a=x*2; a=x*0; a=x*1; a=x*0",
		"OK 1; OVER 1; OK 1; OK 0; OVER 0", "", "OK 1; OVER 1; OK 0; OK 0; OK 0",
	},
	{
		"more than ever, charged", "", "a=x*4; a=x*0", "OVER 0; OVER 0", "OVER 3; OK 3", "OVER 0; OK 0",
	},
	{"more than ever, refused", "charge: false, ", "a=x*4; a=x*0", "OVER 3; OK 3", "", "OVER 0; OK 0"},
	{"more than ever, of a request", "", "4 a=x; a=x*0", "OVER 3; OK 3", "", "OVER 0; OK 0"},
	{
		"a look", "", "a=x*0; a=x*0; a=x*3; a=x*0", "OK 3; OK 3; OK 0; OVER 0",
		"", "OK 0; OK 0; OK 0; OK 0",
	},
	{
		"given back", "", "a=x*3; a=x*-2; a=x*0; a=x*-9", "OK 0; OK 2; OK 2; OK 3",
		"", "OK 0; OK 0; OK 0; OK 0",
	},
	{
		"given back, and taken again", "", "a=x; a=x; a=x*-1; a=x; a=x; a=x; a=x*-9; a=x*3",
		"OK 2; OK 1; OK 2; OK 1; OK 0; OVER 0; OK 3; OK 0", "",
		"OK 2; OK 1; OK 0; OK 0; OVER 0; OVER 0; OK 0; OVER 0",
	},
	{
		"of a debt, given back", "", "a=x*3; a=x*2; a=x*-1; a=x*0; a=x*-2",
		"OK 0; OVER 0; OK 0; OVER 0; OK 1",
		"OK 0; OVER 0; OK 1; OK 1; OK 3", "OK 0; OVER 0; OK 0; OK 0; OK 0",
	},
}

// Every algorithm, with keys and without, decides about every kind of hits as the table says, with every
// fallback.
func TestEveryAlgorithmDecidesAboutEveryKindOfHits(t *testing.T) {
	server := redistest.Start(t)
	silent := server.Client(t)
	server.Freeze(t)
	for _, k := range kinds {
		requests := strings.Split(k.requests, "; ")
		allowed := strings.Repeat("; OK 0", len(requests))[2:]
		failed := strings.Repeat("; error", len(requests))[2:]
		denied := ""
		for _, one := range requests {
			denied += "; " + map[bool]string{true: "OK 0", false: "OVER 0"}[strings.Contains(one, "*-")]
		}
		for _, algorithm := range algorithms {
			decided := k.redis
			if algorithm == concurrent {
				decided = cmp.Or(k.concurrency, decided)
			}
			local := decided
			if algorithm == exact {
				local = cmp.Or(k.exactly, local)
			}
			for _, name := range []string{"", "name: n, "} {
				text := single(name+"rate_limit: {"+k.flags+"unit: hour, requests_per_unit: 3, algorithm: "+
					algorithm+"}") + "\nfallback: "
				s := inMemory(t, Options{}, text+fallbackLocal)
				k.comeOut(t, s, algorithm+name, requests, decided)
				for fallback, want := range map[string]string{
					fallbackLocal: local, fallbackAllow: allowed, fallbackDeny: denied[2:],
					fallbackError: failed,
				} {
					s := serve(t, silent, Options{Budget: time.Millisecond}, text+fallback)
					k.comeOut(t, s, algorithm+name+fallback, requests, want)
				}
			}
		}
	}
}

// comeOut compares the statuses of requests, and requires them within seconds: without a budget, the first
// request alone would wait 5 s for a Redis that hangs.
func (k *kind) comeOut(t *testing.T, s *Service, what string, requests []string, want string) {
	t.Helper()
	var got []string
	start := time.Now()
	for _, one := range requests {
		overall, status, _ := strings.Cut(ask(t, s, one), ": ")
		if overall == "error" {
			status = overall
		}
		got = append(got, status)
	}
	if got := strings.Join(got, "; "); got != want || time.Since(start) >= 5*time.Second {
		t.Errorf("%s, %s, %s: %s after %v, want %s", k.name, what, k.requests, got, time.Since(start), want)
	}
}

// With one of two left, any number of looks at once pass, each in a round trip, and leave it to a request.
func TestLooksTakeNothing(t *testing.T) {
	const looks = 100
	rdb := redistest.Start(t).Client(t)
	trips := redistest.RoundTrips(rdb)
	for _, algorithm := range algorithms {
		s := serve(t, rdb, Options{Prefix: algorithm}, hourly(2, ", algorithm: "+algorithm))
		asks(t, s, "a=x", "OK: OK 1", "a=x*0", "OK: OK 1")
		before := trips.Load()
		var all sync.WaitGroup
		for range looks {
			all.Go(func() { asks(t, s, "a=x*0", "OK: OK 1") })
		}
		all.Wait()
		if n := trips.Load() - before; n > looks {
			t.Errorf("%s: %d looks took %d round trips", algorithm, looks, n)
		}
		asks(t, s, "a=x", "OK: OK 0", "a=x*0", "OVER: OVER 0")
	}
}

// A request may have 100 limits, and takes all or none also where one script call decides about eight.
func TestAllOrNoneOfManyLimits(t *testing.T) {
	for _, n := range []int{1, 7, 8, 99} {
		s := inMemory(t, Options{}, together)
		twos, left := "", ""
		for i := range n {
			twos += fmt.Sprintf("; two=%d", i)
			left += ", OK 1"
		}
		none := strings.ReplaceAll(left, "1", "0")
		asks(t, s, "one=a"+twos, "OK: OK 0"+left, "one=a"+twos, "OVER: OVER 0"+left,
			"one=a"+twos, "OVER: OVER 0"+left, twos[2:], "OK: "+none[2:])
	}
}

// While Redis hangs, limits of all_or_none are refused together, as otherwise. A key may be long. Of many
// failures few are reported.
func TestTheLocalFallbackOfManyRequests(t *testing.T) {
	server := redistest.Start(t)
	start, reports := time.Now(), 0
	o := Options{Budget: 15 * time.Millisecond, OnFailure: func(error) { reports++ }}
	s := serve(t, server.Client(t), o, hourly(2, ", algorithm: token_bucket"))
	all := serve(t, server.Client(t), o, together)
	server.Freeze(t)
	asks(t, all, "2 one=x; two=x", "OVER: OVER 0, OK 0")
	longest := "a=" + strings.Repeat("y", maxKey-len("a="))
	asks(t, s, "a=x", "OK: OK 1", "a=x", "OK: OK 0", "a=x", "OVER: OVER 0", longest, "OK: OK 1")
	if most := 2 + 2*int(time.Since(start)/betweenFailures); reports < 1 || reports > most {
		t.Errorf("%d failures are reported, want 1 to %d", reports, most)
	}
}
