package request

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Peers counts the Clients that used a limiter within the last minute, whatever else its hash holds.
func TestPeersCountsLiveClients(t *testing.T) {
	const clients, most = 3, 20_000
	now := int64(1_700_000_000_000)
	of := func(letter, suffix string) string {
		return wire.SessionPrefix + strings.Repeat(letter, wire.SessionLetters) + suffix
	}
	entry := func(at int64) string { return fmt.Sprintf("%s %d 1 %d", wire.Number(7), at, at) }
	many := func(n int, name string) map[string]any {
		fields := map[string]any{}
		for i := range n {
			fields[fmt.Sprintf(name, i)] = entry(now)
		}
		return fields
	}
	one := func(name, text string) map[string]any { return map[string]any{name: text} }
	for _, tc := range []struct {
		name   string
		fields map[string]any
		more   int64 // Clients that they are of
	}{
		{"nothing", nil, 0},
		{"another Client", one(of("Z", ""), entry(now-60_000)), 1},
		{"a Client whose clock is ahead", one(of("2", ""), entry(now+60_000)), 1},
		{"an old process", one(of("Z", ""), entry(now-60_001)), 0},
		{"calls of Groups", many(9, of("Z", "")+".%d"), 1},
		{"a booking", one(of("Z", ".0"), entry(now)), 1},
		{"an old booking", one(of("Z", ".0"), entry(now-60_001)), 0},
		{"the note of older versions", one(wire.SessionPrefix+"freed", entry(now)), 0},
		{"names that no Client has", many(50, wire.SessionPrefix+"%d"), 0},
		{"a longer name", one(of("Z", "Z"), entry(now)), 0},
		{"a suffix that no call has", one(of("Z", ".x"), entry(now)), 0},
		{"two suffixes", one(of("Z", ".1.1"), entry(now)), 0},
		{"small letters", one(of("z", ""), entry(now)), 0},
		{"a digit that no name has", one(of("0", ""), entry(now)), 0},
		{"the name of a Client with another text", one(of("Z", ""), fmt.Sprint(1, now)), 0},
		{"the name of a Client without a text", one(of("Z", ""), ""), 0},
	} {
		for server, rdb := range map[string]*redis.Client{
			"miniredis": redistest.MiniClient(t, redistest.Mini(t)), "redis": redistest.Start(t).Client(t),
		} {
			t.Run(tc.name+"/"+server, func(t *testing.T) {
				l := usedBy(t, rdb, &now, clients)
				if len(tc.fields) > 0 {
					rdb.HSet(t.Context(), "l", tc.fields)
				}
				if p, err := l.Peers(t.Context(), nil); err != nil || p.Clients != clients+tc.more {
					t.Errorf("%d Clients, %v; want %d", p.Clients, err, clients+tc.more)
				}
			})
		}
	}
	for _, name := range []string{"field%d", wire.SessionPrefix + "%d"} {
		t.Run("very many fields of the form "+name, func(t *testing.T) {
			rdb := redistest.Start(t).Client(t)
			l := usedBy(t, rdb, &now, clients)
			rdb.HSet(t.Context(), "l", many(most, name))
			// A call sees one field in 20, and concludes from these.
			if p, err := l.Peers(t.Context(), nil); err != nil || p.Clients > clients*25 {
				t.Errorf("%d Clients, %v; want about %d", p.Clients, err, clients)
			}
		})
	}
}

// usedBy returns a limiter that some Clients have used at now.
func usedBy(t *testing.T, rdb *redis.Client, now *int64, clients int) (l *Target) {
	t.Helper()
	for i := range clients {
		l = newSource(rdb, withClock(now)).limiter("l")
		if i == 0 {
			setRate(t, l, wire.Overall, 100, time.Hour)
		}
		send(t, l, 1)
	}
	return l
}
