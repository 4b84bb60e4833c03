package compare

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

func TestSequenceDependsOnItsSeedAlone(t *testing.T) {
	a, b, c := sequence(7), sequence(7), sequence(8)
	if !reflect.DeepEqual(a, b) || reflect.DeepEqual(a, c) || len(a) != stepsPerSequence {
		t.Errorf("%s\n%s\n%s", list(a), list(b), list(c))
	}
}

// What Go writes is read back, by the embedded server.
func TestReadStates(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	c := rratelimiter.New(rdb)
	defer c.Close()
	ctx, l := context.Background(), c.RateLimiter("a")
	for _, err := range []error{
		l.SetRate(ctx, rratelimiter.PerClient, 5, time.Minute),
		l.Acquire(ctx, 2),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	keys := append(keysOf("a", c.ID()), keysOf("b", c.ID())...)
	states := redistest.Must(readStates(ctx, rdb, keys))(t)
	a, p := states[0], states[0].inForce()
	if a.settings() != (settings{typ: 1, rate: 5, interval: 60_000, whole: true}) || a.ends != 0 {
		t.Errorf("%v", a)
	}
	if p.value != "3" || sum(p.records) != 2 || p.valueEnds == 0 || !a.pairs[0].empty() {
		t.Errorf("%v", a)
	}
	if b := states[1]; b.hash != nil || !b.pairs[0].empty() || !b.pairs[1].empty() {
		t.Errorf("of nothing: %v", states[1])
	}
	rdb.ZAdd(ctx, "{b}:permits", redis.Z{Score: 1, Member: "x"})
	if _, err := readStates(ctx, rdb, keys); err == nil {
		t.Error("a member that is no record, and no error")
	}
}
