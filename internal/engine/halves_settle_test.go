package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// newSettleState returns the common case of a settlement: 1 of 3 reserved permits was used, and 7 of 10 are
// left.
func newSettleState() *keysState {
	s := newKeysState()
	s.reserves(recordOf(3, theTime-100).Member.(string), 3, 1)
	return s
}

// reserves makes a record the reservation, which is settled to some permits.
func (s *keysState) reserves(records string, reserved, used int64) {
	at := int64(theTime - 100)
	s.settles = &Part{Records: records, Reserved: reserved, Used: used}
	first := redis.Z{Score: float64(at), Member: records}
	s.records = append([]redis.Z{first}, s.records[min(1, len(s.records)):]...)
}

// argvOfSettle returns the arguments of settle.lua. The first state has those that all limiters share.
func argvOfSettle(states []*keysState) []any {
	args := make([]any, argSettled-1, argSettled+settleArgsOfEach*len(states))
	for place := range args {
		args[place] = ""
	}
	for _, place := range []int{argSession, argNumber, argNow, argResent, argNumbers} {
		if v := states[0].args[place]; v != nil {
			args[place-1] = v
		}
	}
	for _, s := range states {
		beyond, records := s.settles.beyond(&wire.Layouts[0])
		givenRate := any("")
		if v := s.args[argGivenRate]; v != nil && beyond > 0 {
			givenRate = v
		}
		p := s.settles
		free := max(0, p.Reserved-p.Used)
		its := []any{s.typ, p.Records, p.Reserved, free, "c", beyond, records, givenRate, ""}
		if p.Lease {
			its[8] = p.Idle.Milliseconds()
		}
		args = append(args, its...)
	}
	return args
}

// settleSpoilers change one thing of a state that only settle.lua looks at.
var settleSpoilers = []func(s *keysState, random *rand.Rand){
	func(s *keysState, random *rand.Rand) {
		s.settles.Used = anyOf[int64](random, 0, 2, 3, 4, 9, 40, 1<<32+5, 1<<40)
	},
	func(s *keysState, random *rand.Rand) { // in another format
		record := string(wire.Layouts[random.IntN(len(wire.Layouts))].Append(nil, 3, false))
		s.reserves(record, 3, s.settles.Used)
	},
	func(s *keysState, random *rand.Rand) { // of any age
		if at := theTime + anyOf[float64](random, 0, 1, -999, -1000, -1001, -5000, -0.5); len(s.records) > 0 {
			s.records[0].Score = at
		}
	},
	func(s *keysState, random *rand.Rand) { // of two records
		s.hash["rate"], s.value = "10000000000", "5705032699"
		two := wire.Layouts[0].AppendAll(nil, 1<<32+5, false)
		s.reserves(string(two[:21]), 1<<32+5, 0)
		s.records = append(s.records, redis.Z{Score: s.records[0].Score, Member: string(two[21:])})
		s.settles.Records = string(two)
		s.settles.Used = anyOf[int64](random, 0, 4, 1<<32, 1<<33)
	},
	func(s *keysState, random *rand.Rand) { // settled before, to less
		if r := s.settles.Records; len(s.records) > 0 && len(r) > 4 {
			s.records[0].Member = r[:len(r)-4] + string([]byte{byte(random.IntN(3)), 0, 0, 0})
		}
	},
	func(s *keysState, random *rand.Rand) { // settled before, to more, or half of that
		r := s.settles.Records
		if len(s.records) == 0 || len(r) <= 4 {
			return
		}
		size := s.settles.size()
		s.settles.Used = s.settles.Reserved + 4
		renamed := []byte(r)
		renamed[len(r)-5] += 128
		s.records = append(s.records, redis.Z{Score: theTime - 10, Member: wire.Beyond(r, size, 4)})
		if random.IntN(2) == 0 {
			s.records[0].Member = string(renamed)
		}
	},
	func(s *keysState, random *rand.Rand) { // a lease, which may have ended
		s.settles.Lease = true
		s.settles.Idle = anyOf[time.Duration](random, 0, 20*time.Millisecond, time.Hour)
		if len(s.records) > 0 {
			s.records[0].Score = theTime + anyOf[float64](random, -10, 0, 30)
		}
	},
	func(s *keysState, random *rand.Rand) { // a charge
		s.settles = &Part{Used: anyOf[int64](random, 1, 7, 8, 30, 1<<33)}
		if random.IntN(2) == 0 {
			s.records = append(s.records, redis.Z{Score: theTime - 1, Member: ""})
		}
	},
}

// drift returns by how much the value is wrong, and whether a record has expired.
func (s *keysState) drift() (drift int64, expired bool) {
	var numbers [3]int64
	for i, v := range []any{s.hash["rate"], s.hash["interval"], s.value} {
		n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
		if err != nil {
			return math.MaxInt64, true
		}
		numbers[i] = n
	}
	rate, interval, value := numbers[0], numbers[1], numbers[2]
	drift = value - rate
	for _, z := range s.records {
		n, _ := wire.Permits(z.Member.(string))
		drift += n
		expired = expired || z.Score <= float64(theTime+500-interval) // of the latest call
	}
	return drift, expired
}

// newSettleStates returns random states, most of them with something wrong, and whether a value is wrong
// where records have expired.
func newSettleStates(random *rand.Rand, limiters int) (states []*keysState, drifts bool) {
	for range limiters {
		s := newSettleState()
		for range random.IntN(5) / limiters {
			anyOf(random, anyOf(random, spoilers, settleSpoilers)...)(s, random)
		}
		if len(s.hash) > 0 {
			s.hash["keepAliveTime"] = anyOf(random, "0", "5000") // the first half does not read it
		}
		drift, expired := s.drift()
		if drift != math.MaxInt64 && random.IntN(2) == 0 {
			value, _ := strconv.ParseInt(fmt.Sprint(s.value), 10, 64)
			s.value, drift = fmt.Sprint(value-drift), 0
		}
		states, drifts = append(states, s), drifts || expired && drift != 0
	}
	return states, drifts
}

// settlesAlike reports whether states are left alike with and without the first half of settle.lua, and
// whether the first half decides them. A call that it decides is followed by a copy: the first half leaves
// alone records that have expired, and the session of a limiter in which nothing changes.
func (h *halves) settlesAlike(whole, second, first string, states []*keysState) (alike, decides bool) {
	h.then = ""
	got, took := h.run([]string{whole, second, first}, states...)
	if strings.Contains(got[2].reply, fellThrough) {
		return !got[0].differs(got[1], took), false
	}
	h.then = second
	got, _ = h.run([]string{whole, second}, states...)
	again := !strings.HasPrefix(got[1].reply, "[0 ") && !strings.HasPrefix(got[1].reply, "[2 ") // replyFlags
	says := got[0].reply == "0 <nil>" && !again
	return says && got[0].keys == got[1].keys, true
}

// Random states are left alike with and without the first half of settle.lua. Where records have expired and
// the value is wrong as well, the two may correct it at different times.
func TestHalvesOfASettlementAgreeOnAnyState(t *testing.T) {
	for limiters := 1; limiters <= 3; limiters++ {
		t.Run(fmt.Sprint(limiters), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 2))
			whole, second, first := groupSources(t, "settle.lua", limiters)
			h, decided, rounds := newHalves(t), 0, redistest.Rounds(t, 1200)
			for range rounds {
				states, drifts := newSettleStates(random, limiters)
				alike, decides := h.settlesAlike(whole, second, first, states)
				if !alike && !(decides && drifts) {
					for _, s := range states {
						t.Logf("%+v, settles %+v", s, s.settles)
					}
					got, _ := h.run([]string{whole, second}, states...)
					t.Fatalf("with the first half %+v\nwithout            %+v", got[0], got[1])
				}
				if decides {
					decided++
				}
			}
			if decided < rounds/8 {
				t.Errorf("the first half decided %d of %d states; the others show nothing", decided, rounds)
			}
		})
	}
}
