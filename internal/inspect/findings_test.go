package inspect_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// A subject is a limiter of rate 10 in a minute, of which 4 permits were taken 20 s ago and 2 now.
type subject struct {
	*testing.T
	rdb                  *redis.Client
	name, value, permits string // keys
	newer                string // the second record
}

// A fault is what spoils a subject, and what is found then.
type fault struct {
	name   string
	spoil  func(s *subject)
	fault  string // of the first finding; none if What is empty
	what   string
	remark bool
}

// A finding names its fault in docs/faults.md, and is distinguished from a remark. compat_test has the states
// that the Java peer leaves.
func TestFindings(t *testing.T) {
	for _, c := range []fault{
		{"nothing", func(*subject) {}, "", "", false},
		{"a version with a longer interval", func(s *subject) {
			s.field("longest", fmt.Sprint(600_000, time.Now().Add(time.Minute).UnixMilli()))
			put(s.T, s.rdb, s.permits, redistest.JavaRecord(1, 3), 5*time.Minute)
		}, "", "", false},
		{"one that has gone", func(s *subject) {
			s.field("longest", fmt.Sprint(600_000, time.Now().Add(-time.Minute).UnixMilli()))
			put(s.T, s.rdb, s.permits, redistest.JavaRecord(1, 3), 5*time.Minute)
		}, "B1", "make 13, 3 above", false},
		{"released, the records left", func(s *subject) { s.set("7") }, "B1", "make 13, 3 above", false},
		{"all released, the records left", func(s *subject) { s.set("10") }, "B1", "make 16, 6 above", false},
		{"the records lost", func(s *subject) { s.del(s.permits) }, "B2", "The value is 4 of 10", false},
		{"counted twice", func(s *subject) { s.set("15") }, "B3", "The value is 15, above", false},
		{"counted twice, all over", func(s *subject) {
			s.set("15")
			s.del(s.permits)
		}, "B3", "The value is 15, above", false},
		{"charged twice", func(s *subject) { s.set("2") }, "B4", "2 permits are in no record", false},
		{"a clock that is fast", func(s *subject) {
			s.set("3")
			put(s.T, s.rdb, s.permits, redistest.JavaRecord(1, 1), -10*time.Second)
		}, "B5", "is fast: 1.", true},
		{"a value that outlives the hash", func(s *subject) {
			s.expire(s.name)
		}, "B6", "later or never", true},
		{"records that outlive the hash", func(s *subject) {
			s.expire(s.name, s.value)
		}, "B6", "later or never", true},
		{"a value that expires early", func(s *subject) { s.expire(s.value) }, "", "before the hash", false},
		{"all with one life", func(s *subject) { s.expire(s.name, s.value, s.permits) }, "", "", false},
		{"left without a rate", func(s *subject) { s.del(s.name) }, "B6 or B8", "No rate is set, but", false},
		{"left from another type", func(s *subject) {
			s.field("type", 1)
		}, "B8", "is left from another type; PER_CLIENT", true},
		{"a lower rate that forgot", func(s *subject) {
			s.field("rate", 5)
			s.set("0")
		}, "B1 or B11", "6 permits are taken", false},
		{"records of no permits", func(s *subject) {
			put(s.T, s.rdb, s.permits, redistest.JavaRecord(1, 0), 0)
		}, "B12", "waiters of Java busy: 1.", true},
		{"a negative number of permits", func(s *subject) {
			put(s.T, s.rdb, s.permits, redistest.JavaRecord(1, 1<<32-3), 0)
			s.set("7")
		}, "B12", "negative number", false},
		{"permits cut off", func(s *subject) {
			s.field("rate", 1<<33)
			s.set("4294967290") // 2^33 - 6 - 2^32
		}, "B13", "4294967296 permits are in no record", false},
		{"a value that is no integer", func(s *subject) { s.set("1e+17") }, "B14", `"1e+17"`, false},
		{"a rate that is no integer", func(s *subject) {
			s.field("rate", "1.5")
		}, "B14 or B15", `rate is "1.5"`, false},
		{"half of a rate", func(s *subject) {
			s.rdb.HDel(s.Context(), s.name, "interval")
		}, "B15", "Half of a rate", false},
		{"the value lost", func(s *subject) { s.del(s.value) }, "B19", "records hold 6 permits", false},
		{"the value lost, some granted again", func(s *subject) {
			s.rdb.ZRem(s.Context(), s.permits, s.newer)
			put(s.T, s.rdb, s.permits, redistest.JavaRecord(1, 2), 0)
			s.set("8")
		}, "B1 or B19", "4 above the rate", false},
		{"rate 0", func(s *subject) { s.field("rate", 0) }, "B22", "The rate is 0", false},
		{"interval 0", func(s *subject) { s.field("interval", 0) }, "B22", "interval is 0", false},
		{"no form of Redisson", func(s *subject) {
			put(s.T, s.rdb, s.permits, "\x01\x00\x00\x00", 0)
			s.set("3")
		}, "", "Redisson writes: 1.", true},
		{"two formats", func(s *subject) {
			put(s.T, s.rdb, s.permits, "\x08abcdefgh\x01\x00\x00\x00", 0)
			s.set("3")
		}, "", "have 2 formats", true},
		{"records that expire early", func(s *subject) { s.expire(s.permits) }, "", "before the hash", false},
		{"a string", func(s *subject) {
			s.rdb.Set(s.Context(), s.name, "x", 0)
		}, "", "is a string, must be a hash", false},
		{"a list for a value", func(s *subject) {
			s.del(s.value)
			s.rdb.LPush(s.Context(), s.value, "x")
		}, "", "is a list, must be a string", false},
	} {
		t.Run(c.name, c.isFound)
	}
}

// isFound finds the fault in a limiter that was spoiled.
func (c fault) isFound(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	l := limiter(t, rdb, rratelimiter.Overall, 10, time.Minute)
	keys := wire.KeysOf(l.Name(), "").Pairs[0]
	s := &subject{t, rdb, l.Name(), keys.Value, keys.Permits, redistest.JavaRecord(8, 2)}
	put(t, rdb, s.permits, redistest.JavaRecord(7, 4), 20*time.Second)
	put(t, rdb, s.permits, s.newer, 0)
	s.set("4")
	c.spoil(s)
	got := look(t, rdb, l.Name())
	if c.fault+c.what == "" {
		if len(got.Findings) != 0 {
			t.Errorf("found %+v", got.Findings)
		}
		return
	}
	if len(got.Findings) == 0 {
		t.Fatalf("nothing was found: %+v", got)
	}
	f := got.Findings[0]
	if !strings.HasPrefix(f.Fault, c.fault) || !strings.Contains(f.What, c.what) || f.Label == "" ||
		f.Remark != c.remark || f.Mend == "" || got.Holds() != c.remark {
		t.Errorf("found %+v", f)
	}
}

func (s *subject) set(value string) { s.rdb.Set(s.Context(), s.value, value, 0) }
func (s *subject) del(key string)   { s.rdb.Del(s.Context(), key) }
func (s *subject) expire(keys ...string) {
	for _, key := range keys {
		s.rdb.Expire(s.Context(), key, time.Hour)
	}
}
func (s *subject) field(name string, v any) { s.rdb.HSet(s.Context(), s.name, name, v) }

// A repair mends each drift, as its finding says.
func TestRepairMendsADrift(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	for _, value := range []string{"9", "2", "15", "x", ""} {
		l := limiter(t, rdb, rratelimiter.Overall, 10, time.Minute)
		take(t, l, 3)
		if value == "" {
			rdb.Del(t.Context(), "{"+l.Name()+"}:value")
		} else {
			rdb.Set(t.Context(), "{"+l.Name()+"}:value", value, 0)
		}
		if got := look(t, rdb, l.Name()); got.Holds() {
			t.Errorf("%s: it holds: %+v", value, got)
		}
		if _, err := l.Repair(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := look(t, rdb, l.Name()); !got.Holds() || got.Shared().Remaining != 7 {
			t.Errorf("%s: %+v", value, got)
		}
	}
}

// A changed PER_CLIENT rate is no drift: the client adapts with its next call.
func TestAChangedRateIsNoDrift(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	for _, rate := range []int64{20, 4} {
		l := limiter(t, rdb, rratelimiter.PerClient, 10, time.Minute)
		take(t, l, 3)
		rdb.HSet(t.Context(), l.Name(), wire.Rate, rate) // as another client does with keepState
		got := look(t, rdb, l.Name(), "me")
		if len(got.Findings) != 1 || got.Findings[0].Fault != "B9" || !got.Holds() {
			t.Errorf("%d: found %+v", rate, got.Findings)
		}
		if p := got.PairOf("me"); p.Remaining != rate-3 {
			t.Errorf("%d: %+v", rate, p)
		}
		rdb.HDel(t.Context(), l.Name(), wire.VoucherOf(got.Keys[3].Name)) // as if the client were one of Java
		got = look(t, rdb, l.Name(), "me")
		if len(got.Findings) != 1 || !strings.HasSuffix(got.Findings[0].Fault, " or B9") || got.Holds() {
			t.Errorf("%d, without a voucher: found %+v", rate, got.Findings)
		}
		take(t, l, 1)
		if got = look(t, rdb, l.Name(), "me"); len(got.Findings) != 0 {
			t.Errorf("%d, after a call: found %+v", rate, got.Findings)
		}
	}
}

// Remaining is what Go finds, whatever the drift.
func TestRemainingIsWhatGoFinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniClient(t, redistest.Mini(t))
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 300 {
			rate := 1 + random.Int64N(40)
			l := limiter(t, rdb, rratelimiter.RateType(i%2), rate, time.Second)
			for range random.IntN(20) {
				redistest.Must(l.TryAcquire(t.Context(), 1+random.Int64N(rate), 0))(t)
				if random.IntN(10) == 0 {
					redistest.Must(l.Charge(t.Context(), 1+random.Int64N(3*rate)))(t)
				}
				time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
			}
			if random.IntN(2) == 0 {
				value := wire.KeysOf(l.Name(), "me").Pairs[i%2].Value
				rdb.IncrBy(t.Context(), value, random.Int64N(2*rate)-rate)
			}
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			p := look(t, rdb, l.Name(), "me").InUse()[0]
			r, err := l.Peek(t.Context())
			if err != nil || r.Remaining != p.Remaining || r.Debt != p.Debt {
				t.Errorf("%d: %d and %d, Go finds %d and %d, %v: %+v", i, p.Remaining, p.Debt,
					r.Remaining, r.Debt, err, p)
			}
		}
	})
}

// A name whose keys a cluster keeps apart is a remark elsewhere.
func TestNamesOfManySlots(t *testing.T) {
	rdb := redistest.MiniClient(t, redistest.Mini(t))
	c := rratelimiter.New(rdb)
	defer c.Close()
	redistest.NoError(t, c.RateLimiter("a{b").SetRate(t.Context(), rratelimiter.Overall, 1, time.Second))
	got := look(t, rdb, "a{b")
	if len(got.Findings) != 1 || got.Findings[0].Fault != "B23" || !got.Holds() {
		t.Errorf("%+v", got.Findings)
	}
}
