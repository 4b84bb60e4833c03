package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// theTime is now for the states, in Unix ms.
const theTime = 1_700_000_000_000

// A keysState is what the keys of a limiter hold before a call, and the arguments of the call.
type keysState struct {
	hash    map[string]any
	value   any // nil for no key
	records []redis.Z
	list    bool             // the key of the records is a list
	ttl     time.Duration    // of all keys; 0 for none
	ttls    [3]time.Duration // of single keys, instead of ttl; 0 for ttl, below 0 for none
	args    given
	typ     any   // ARGV[1]
	settles *Part // for settle.lua
}

// newKeysState returns the common case: 2 permits are asked for, and 7 of 10 are left.
func newKeysState() *keysState {
	return &keysState{
		hash: map[string]any{"rate": "10", "interval": "1000", "type": "0", "keepAliveTime": "0",
			mySession: sessionText(1, theTime)},
		value: "7", records: []redis.Z{recordOf(3, theTime-100)}, typ: "0",
		args: given{argSession: mySession, argNumber: wire.Number(9), argPermits: 2,
			argRecords: recordOf(2, 0).Member, argNow: theTime},
	}
}

// rests makes it a limiter of which nothing is outstanding.
func (s *keysState) rests() { s.records, s.value = nil, "10" }

// sessionText is the text of a session whose last request took a permit.
func sessionText(number, at int64) string {
	return fmt.Sprintf("%s %d 1 %d", wire.Number(number), at, at)
}

// myVoucher is the field that vouches for an own value (scripts/parts/vouch.lua).
const myVoucher = wire.SessionPrefix + "{l}:value"

// vouched makes it the PER_CLIENT limit of a client whose value was noted to be right for a rate.
func (s *keysState) vouched(rate string, at int64) {
	s.typ, s.hash["type"], s.hash[mySession] = "1", "1", sessionText(1, theTime)+" 10"
	s.hash[myVoucher] = fmt.Sprintf("%s %d 0 0 %s", wire.Number(0), at, rate)
}

func recordOf(permits uint32, at float64) redis.Z {
	return redis.Z{Score: at, Member: string(wire.Layouts[0].Append(nil, permits, false))}
}

func anyOf[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// spoilers change one thing of a state.
var spoilers = []func(s *keysState, random *rand.Rand){
	func(s *keysState, random *rand.Rand) { // a field of the hash
		field := anyOf(random, "rate", "interval", "type", "keepAliveTime")
		if text := anyOf(random, "", "1", "0", "-5", "x", "1e3", "7.5", "5000", "0x10", "1e300", "inf",
			"9007199254740992", "9007199254740993", "010"); text != "" {
			s.hash[field] = text
		} else {
			delete(s.hash, field)
		}
	},
	func(s *keysState, random *rand.Rand) {
		s.value = anyOf[any](random, nil, []any{"x"}, "0", "1", "2", "10", "11", "-3", "-1e300", "7e0", " 7",
			"x", "", "2.5", "9007199254740993", "nan", "-0")
	},
	func(s *keysState, random *rand.Rand) { // a record more, or none at all
		at := theTime + anyOf[float64](random, 0, -1, -100, -999, -1000, -1001, -5000, 1, 50, 500,
			5e6, -0.5, 1e300)
		z := recordOf(anyOf[uint32](random, 0, 1, 3, 8, 1<<32-1), at)
		if member := anyOf(random, "", "", "ab", "\x08abcdefgh\x02\x00\x00\x00"); member != "" {
			z.Member = member
		}
		s.records = append(s.records, z)
		if random.IntN(8) == 0 {
			s.records = nil
		}
	},
	func(s *keysState, _ *rand.Rand) { s.rests() },
	func(s *keysState, _ *rand.Rand) { // only its last record
		s.records = s.records[max(0, len(s.records)-1):]
	},
	func(s *keysState, random *rand.Rand) { // a longest interval, or callers that wait
		s.hash["longest"] = anyOf(random, fmt.Sprintf("5000 %d 3 7", theTime+9000), "x",
			fmt.Sprint("9 ", theTime))
	},
	func(s *keysState, _ *rand.Rand) { s.hash["waiting"] = fmt.Sprintf("session:b 5 %d;", theTime+900) },
	func(s *keysState, random *rand.Rand) {
		s.hash[mySession] = anyOf(random, sessionText(9, theTime), sessionText(10, theTime),
			sessionText(8, theTime-1), sessionText(2, theTime-11_000), sessionText(2, theTime-90_000),
			"", "x", sessionText(2, theTime)+" 10")
		if random.IntN(3) == 0 {
			delete(s.hash, mySession)
		}
	},
	func(s *keysState, random *rand.Rand) { // sessions of other Clients
		for i := range anyOf(random, 2, 8, 20) {
			s.hash[fmt.Sprint("session:", i)] = sessionText(3, theTime-anyOf[int64](random, 5, 70_000))
		}
	},
	func(s *keysState, random *rand.Rand) { s.ttl = anyOf(random, time.Second, 5*time.Second, time.Hour) },
	func(s *keysState, random *rand.Rand) { // one key with another time to live than the others
		s.ttls[random.IntN(3)] = anyOf(random, -1, time.Second, 5*time.Second, time.Hour)
	},
	func(s *keysState, random *rand.Rand) { s.removedByJava(random.Uint32N(9)) },
	func(s *keysState, random *rand.Rand) { // a keep alive
		s.hash["keepAliveTime"] = "5000"
		s.ttl = anyOf(random, 5*time.Second, 4*time.Second)
		s.args[argGivenRate] = "10 1000 5000 1"
	},
	func(s *keysState, random *rand.Rand) {
		s.args[argGivenRate] = anyOf(random, "10 1000 0 1", "10 1000 0 0", "20 1000 0 1",
			"20 1000 0 0", "10 5000 0 1")
	},
	func(s *keysState, random *rand.Rand) { s.asks(anyOf[int64](random, 1, 3, 7, 8, 10, 11, 1<<32+5)) },
	func(s *keysState, _ *rand.Rand) { s.args[argNumbers] = 1 },
	func(s *keysState, random *rand.Rand) { // two runs
		s.asksInRuns(run{2, anyOf[int64](random, 2, -2)}, run{3, 1})
	},
	func(s *keysState, _ *rand.Rand) { s.args[argResent] = 10 },
	func(s *keysState, _ *rand.Rand) {
		s.args[argAfter], s.args[argKept], s.args[argChannel] = wire.Number(0), int64(keptAll), "c"
	},
	func(s *keysState, random *rand.Rand) { s.args[argResolution] = anyOf(random, 0, 100) },
	func(s *keysState, random *rand.Rand) { s.args[argPortion] = anyOf(random, "", "5 0 0 0", "5 3 1 2") },
	func(s *keysState, _ *rand.Rand) { s.typ = "1" },
	func(s *keysState, _ *rand.Rand) { s.typ, s.hash["type"] = "1", "1" },
	func(s *keysState, random *rand.Rand) {
		s.vouched(anyOf(random, "10", "11"), theTime-anyOf[int64](random, 0, 0, 11_000))
	},
	func(s *keysState, random *rand.Rand) {
		s.hash["interval"] = anyOf(random, "1000", "1000000")
		s.ages(anyOf(random, 0, 1, 3, 20, 21), anyOf(random, 0, 1, 5, 10, 11, 15), random.IntN(3) == 0)
	},
	func(s *keysState, random *rand.Rand) {
		s.begins(anyOf(random, "10 1000 0 0", "10 1000 5000 1", "10 9000 5 1"))
	},
}

// removedByJava makes all records those of Java, and the session one of a while ago. Java has removed
// expired records of some permits, and has not added them to the value.
func (s *keysState) removedByJava(permits uint32) {
	for i, r := range s.records {
		if member := fmt.Sprint(r.Member); len(member) == wire.Layouts[0].Size() {
			s.records[i].Member = member[:1] + "java" + member[5:]
		}
	}
	s.hash[mySession], s.value = sessionText(1, theTime-15_000), fmt.Sprint(7-int64(permits))
}

// begins makes the call the first one of a limiter, with a given rate.
func (s *keysState) begins(given string) {
	s.hash, s.value, s.records, s.ttl = map[string]any{}, nil, nil, 0
	s.args[argGivenRate] = given
}

// ages gives a limiter records that have expired and records that still count, each of one permit, and a
// value that is right. A check of the value is due between the two, unless they are near.
func (s *keysState) ages(expired, living int, near bool) {
	interval := float64(1000)
	if s.hash["interval"] == "1000000" {
		interval = 1_000_000
	}
	age := interval
	if !near {
		age += 5 * interval
	}
	now := theTime + 500.0
	s.records, s.args[argNow] = nil, int64(now)
	for i := range expired {
		s.records = append(s.records, recordOf(1, now-age-float64(i)))
	}
	for i := range living {
		s.records = append(s.records, recordOf(1, now-interval+1+float64(i)))
	}
	s.hash["rate"], s.value = "40", fmt.Sprint(40-expired-living)
	if seen, own := s.hash[myVoucher].(string); own && strings.HasSuffix(seen, " 10") {
		s.vouched("40", int64(now))
	}
}

// asks makes the call ask for some permits.
func (s *keysState) asks(permits int64) {
	s.args[argPermits], s.args[argRecords] = permits, wire.Layouts[0].AppendAll(nil, permits, false)
}

// asksInRuns makes the call ask for some runs.
func (s *keysState) asksInRuns(runs ...run) {
	permits := int64(0)
	for i, r := range runs {
		permits += r.permits * r.size()
		s.args[argRuns+2*i], s.args[argRuns+2*i+1] = r.permits, r.many
	}
	s.asks(permits)
}
