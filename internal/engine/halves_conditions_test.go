package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// Each condition of the first half is needed: without it, some state ends otherwise than by the second half.
func TestEachConditionOfTheFirstHalfIsNeeded(t *testing.T) {
	whole, second, _ := halfSources(t)
	eachIsNeeded(t, conditions, whole, second, 1)
}

// The same holds for calls of a Group, whose first limiter is in the state.
func TestEachConditionOfAGroupIsNeeded(t *testing.T) {
	whole, second, _ := groupSources(t, "all.lua", 2)
	eachIsNeeded(t, conditionsOfGroups, whole, second, 2)
}

func eachIsNeeded(t *testing.T, conditions []condition, whole, second string, limiters int) {
	t.Helper()
	h := newHalves(t)
	for _, c := range conditions {
		changed := strings.Replace(whole, c.text, c.without, limiters)
		if changed == whole {
			t.Errorf("%q is not in the first half", c.text)
			continue
		}
		s := newKeysState()
		c.state(s)
		states := []*keysState{s}
		for len(states) < limiters {
			states = append(states, newKeysState())
		}
		got, took := h.run([]string{whole, second, changed}, states...)
		if got[0].differs(got[1], took) {
			t.Errorf("%s: %+v\nwith the first half %+v\nwithout            %+v", c.text, s, got[0], got[1])
		}
		if !got[2].differs(got[1], took) {
			t.Errorf("%s: no difference without it: %+v", c.text, got[1])
		}
	}
}

// A condition is a text of the first half, what stands there without it, and a state that needs it.
type condition struct {
	text, without string
	state         func(s *keysState)
}

func field(name, text string) func(s *keysState) { return func(s *keysState) { s.hash[name] = text } }

func argument(place int, v any) func(s *keysState) { return func(s *keysState) { s.args[place] = v } }

// keptAlive returns a state with a fresh keep alive, and keys with other times to live (keysState).
func keptAlive(ttls ...time.Duration) func(s *keysState) {
	return func(s *keysState) {
		s.hash["keepAliveTime"], s.ttl, s.args[argGivenRate] = "5000", 4900*time.Millisecond, "10 1000 5000 1"
		copy(s.ttls[:], ttls)
	}
}

// refused returns a state in which 5 permits are asked for and 2 are left, changed by more.
func refused(more func(s *keysState)) func(s *keysState) {
	return func(s *keysState) {
		s.value, s.records = "2", []redis.Z{recordOf(8, theTime-100)}
		s.asks(5)
		more(s)
	}
}

var conditions = slices.Concat(conditionsOfKeys, conditionsOfRecords, conditionsOfCalls,
	conditionsOfLives, conditionsOfFirstCalls)

var conditionsOfKeys = []condition{
	{" and rate and", " and", func(s *keysState) { delete(s.hash, "rate") }},
	{" interval and", "", func(s *keysState) { delete(s.hash, "interval") }},
	{" keep and", "", field("keepAliveTime", "x")},
	{" value and", "", func(s *keysState) { s.value = nil }},
	{" value == rate and now", " now", func(s *keysState) { s.records = nil }},
	{"not oldest.err and", "", func(s *keysState) { s.list, s.value = true, "10" }},
	{" and kind == f[3] and", " and", func(s *keysState) { s.typ = "1" }},
	{" or f[3] == '0')", " or true)", func(s *keysState) {
		s.typ, s.hash["type"], s.value = "1", "1", "5"
	}},
	{"(%-?%d+)$') == f[1]", "(%-?%d+)$')", func(s *keysState) {
		s.vouched("11", theTime)
		s.value = "5"
	}},
	{"\n    and string.sub(voucher, FROM, TO) == string.sub(at, 1, 9) or", " or", func(s *keysState) {
		s.vouched("10", theTime-11_000)
	}},
	{" interval > 0", " true", func(s *keysState) {
		s.hash["interval"] = "-1000"
		s.records[0].Score = theTime
	}},
	{" and not f[6]", "", field("longest", fmt.Sprintf("5000 %d 3 7", theTime+9000))},
	{"rate % 1 +", "", field("rate", "10.5")},
	{" interval % 1 +", "", field("interval", "1000.5")},
	{" keep % 1 +", "", field("keepAliveTime", "5000.5")},
	{" + value % 1", "", func(s *keysState) { s.value = "6.5" }},
	{" + since % 1", "", refused(func(s *keysState) { s.records[0].Score -= 0.5 })},
	{"rate <= MOST and", "", field("rate", "1e300")},
	{" interval <= MOST and", "", field("interval", "1e300")},
	{" keep <= MOST and", "", field("keepAliveTime", "1e300")},
	{" and value <= rate", "", func(s *keysState) { s.value = "12" }},
	{" and latest <= now and", " and", refused(func(s *keysState) { s.records[0].Score = theTime + 500 })},
	{"(not f[5] or f[5] < ARGV[3])", "true", field(mySession, sessionText(9, theTime))},
	{"redis.call('HLEN', KEYS[1]) < FEW", "true", func(s *keysState) {
		delete(s.hash, mySession)
		for i := range 20 {
			s.hash[fmt.Sprint("session:", i)] = sessionText(1, theTime-70_000)
		}
	}},
	{"string.sub(f[5], FROM, TO) == string.sub(at, 1, 9)", "true", func(s *keysState) {
		for i := range 20 {
			s.hash[fmt.Sprint("session:", i)] = sessionText(1, theTime-70_000)
		}
		s.hash[mySession] = sessionText(1, theTime-70_000)
	}},
	{"ARGV[5]) == 1", "ARGV[5]) >= 0", func(s *keysState) { s.args[argRecords] = s.records[0].Member }},
}

// aged returns a state with expired records and others, changed by more.
func aged(expired, living int, near bool, more func(s *keysState)) func(s *keysState) {
	return func(s *keysState) {
		s.ages(expired, living, near)
		more(s)
	}
}

var conditionsOfRecords = []condition{
	{"if right and since <= now - interval then", "if false then", aged(3, 5, false, func(*keysState) {})},
	{"right = gone <= SOME and", "right = true and", aged(21, 11, true, func(*keysState) {})},
	{" latest % 1 == 0 and", "", aged(3, 11, true, func(s *keysState) {
		s.value = "3"
		s.records[3].Score -= 0.5
	})},
	{" and value + sum == rate", "", aged(3, 5, true, func(s *keysState) { s.value = "10" })},
	{" and value + left <= rate", "", aged(1, 11, true, func(s *keysState) { s.value = "32" })},
	{"math.floor(since / interval) == math.floor(latest / interval)", "true",
		aged(3, 11, false, func(s *keysState) { s.value = "3" })},
	{"if right and all", "if all", aged(3, 0, true, func(s *keysState) {
		s.value = "0"
		s.asks(5)
	})},
	{"right = right and latest", "right = latest", aged(3, 5, true, func(s *keysState) { s.value = "10" })},
	{"n = d and", "n =", aged(3, 0, true, func(s *keysState) { s.records[0].Member = "ab" })},
	{"if gone > 0 then", "if false then", aged(3, 0, true, func(*keysState) {})},
}

var conditionsOfCalls = []condition{
	{"(ARGV[7] or '') .. ", "", refused(argument(argResent, 10))},
	{"(ARGV[9] or '') .. ", "", func(s *keysState) {
		s.args[argAfter], s.args[argKept], s.args[argChannel] = wire.Number(0), int64(keptAll), "c"
		s.records[0].Score = theTime
	}},
	{"(ARGV[12] or '') .. ", "", argument(argResolution, 300)},
	{" .. (ARGV[14] or '')", "", func(s *keysState) {
		s.args[argPortion], s.hash["waiting"] = "2 6 0 6", fmt.Sprintf("session:b 50 %d;", theTime+900)
	}},
	{"string.sub(given, 1, -2) == f[1] .. ' ' .. f[2] .. ' ' .. (f[4] or 0) .. ' '", "true",
		argument(argGivenRate, "20 1000 0 1")},
	{" and all <= rate", "", func(s *keysState) {
		s.value, s.records = "-10", []redis.Z{recordOf(30, theTime-100)}
		s.asks(11)
	}},
	{" and lone then", " then", refused(func(s *keysState) {
		s.asksInRuns(run{2, 1}, run{3, 1})
	})},
	{"wait = d and a", "wait = a", refused(func(s *keysState) { s.records[0].Member = "ab" })},
	{"a + b * 256 + c * 65536 + d * 16777216 >= all - value", "true", refused(func(s *keysState) {
		s.records = []redis.Z{recordOf(1, theTime-100), recordOf(7, theTime-50)}
	})},
	{"asked or ", "", func(s *keysState) {
		s.args[argNumbers] = 1
		s.records = append(s.records, recordOf(1, theTime+500))
	}},
	{"wait or all <= value and", "wait or", func(s *keysState) {
		s.asksInRuns(run{4, 1}, run{4, 1})
	}},
	{" and all <= FULL", "", func(s *keysState) {
		s.hash["rate"], s.value = "1000000000000", "999999999997"
		s.asks(1<<32 + 5)
	}},
	{"right = sum == rate", "", func(s *keysState) { s.removedByJava(1) }},
	{"some and value or nil", "some and value or rate", func(s *keysState) {
		s.ages(0, 11, true)
		s.hash[mySession], s.value = sessionText(1, theTime-15_000), "28"
	}},
	{"some = not wait and", "some =", refused(func(s *keysState) {
		s.hash[mySession] = sessionText(1, theTime-15_000)
	})},
}

var conditionsOfLives = []condition{
	{"if given ~= '' then", "if true then", func(s *keysState) {
		s.hash["keepAliveTime"], s.ttl = "5000", 4900*time.Millisecond
	}},
	{"ttl > text or", "", keptAlive(0, -1, 0)},
	{"ttl > records", "false", keptAlive(0, 0, time.Second)},
	{"ttl < keep - keep / 8 or", "", keptAlive(2*time.Second+900*time.Millisecond, 0, 0)},
	{"text > ttl + least or", "", keptAlive(0, time.Hour, 0)},
	{" or records > ttl + least", "", keptAlive(0, 0, time.Hour)},
	{"redis.call('PTTL', KEYS[2]) >= 0 or", "", func(s *keysState) { s.ttls[1] = time.Second }},
	{" or redis.call('PTTL', KEYS[3]) >= 0", "", func(s *keysState) { s.ttls[2] = time.Second }},
	{"if ends then", "if false then", refused(func(s *keysState) { s.ttl = 100 * time.Millisecond })},
}

// begun returns a state without keys in which the call gives a rate, changed by more.
func begun(more func(s *keysState)) func(s *keysState) {
	return func(s *keysState) {
		s.begins("10 1000 5000 1")
		more(s)
	}
}

var conditionsOfFirstCalls = []condition{
	{"none = given ~= '' and", "none =", begun(argument(argGivenRate, ""))},
	{" and ARGV[1] == '0' and", " and", begun(func(s *keysState) { s.typ = "1" })},
	{"KEYS[1], KEYS[2], KEYS[3]) == 0", "KEYS[1], KEYS[3]) == 0", begun(func(s *keysState) {
		s.value = []any{"x"}
	})},
	{"KEYS[2], KEYS[3]) == 0", "KEYS[2]) == 0", begun(func(s *keysState) {
		s.records = []redis.Z{recordOf(9, theTime-1)}
	})},
	{" and ARGV[12] == ''", "", begun(argument(argResolution, 300))},
	{"'EXISTS', KEYS[1],", "'EXISTS',", begun(func(s *keysState) {
		for i := range 20 {
			s.hash[fmt.Sprint("session:", i)] = sessionText(1, theTime-70_000)
		}
	})},
	{"most <= MOST and", "", begun(argument(argGivenRate, "9007199254740993000 1000 0 1"))},
	{" ms > 0 and", "", begun(argument(argGivenRate, "10 0 0 1"))},
	{" math.max(ms, alive) <= MOST and", "", begun(argument(argGivenRate, "10 1000 9007199254740993000 1"))},
	{" and all <= most", "", begun(func(s *keysState) { s.asks(11) })},
	{"all <= FULL then", "true then", begun(func(s *keysState) {
		s.args[argGivenRate] = "1000000000000 1000 0 1"
		s.asks(1<<32 + 5)
	})},
}

var conditionsOfGroups = []condition{
	{"common and kind", "kind", func(s *keysState) { s.value = nil }},
	{"kind == '0' and", "", func(s *keysState) {
		s.vouched("10", theTime)
	}},
	{" and ARGV[12] == ''", "", argument(argResolution, 300)},
	{" not redis.call('ZSCORE', KEYS[3], member)", " true", func(s *keysState) {
		s.args[argRecords] = s.records[0].Member
	}},
	{"common = right and", "common =", func(s *keysState) { s.value = nil }},
	{"granted = granted and", "granted =", refused(func(*keysState) {})},
	{"lone, usual = not resent", "lone, usual = true", refused(argument(argResent, 10))},
}

// Each condition of the first half of settle.lua is needed: without it, some state ends otherwise. Two are
// not here: since % 1 and since <= now leave records ahead of the server's clock to the second half.
func TestEachConditionOfASettlementIsNeeded(t *testing.T) {
	whole, second, _ := groupSources(t, "settle.lua", 1)
	h := newHalves(t)
	for _, c := range conditionsOfSettlements {
		changed := strings.Replace(whole, c.text, c.without, 1)
		if changed == whole {
			t.Errorf("%q is not in the first half", c.text)
			continue
		}
		s := newSettleState()
		c.state(s)
		got, took := h.run([]string{whole, second, changed}, s)
		if got[0].differs(got[1], took) {
			t.Errorf("%s: %+v\nwith the first half %+v\nwithout            %+v", c.text, s, got[0], got[1])
		}
		if s.args[argNumbers] == nil && got[2].reply == "0 <nil>" { // which is brief, but says the same
			got[2].reply = got[1].reply
		}
		if !got[2].differs(got[1], took) {
			t.Errorf("%s: no difference without it: %+v", c.text, got[1])
		}
	}
}

// used returns a state in which some of 3 reserved permits were used, changed by more.
func used(permits int64, more func(s *keysState)) func(s *keysState) {
	return func(s *keysState) {
		s.settles.Used = permits
		more(s)
	}
}

var conditionsOfSettlements = []condition{
	{"common = {}, ARGV[8] == ''", "common = {}, true", argument(argNumbers, 1)},
	{" and #member == BC0I16", "", func(s *keysState) {
		s.settles, s.records = &Part{Used: 1}, append(s.records, redis.Z{Score: theTime, Member: ""})
	}},
	{"= rate and interval", "= interval", func(s *keysState) { delete(s.hash, "rate") }},
	{"rate and interval and", "rate and", func(s *keysState) { delete(s.hash, "interval") }},
	{" and value and", " and", func(s *keysState) { s.value = nil }},
	{" and f[3] == '0'", "", field("type", "1")},
	{" and ARGV[from] == '0'", "", func(s *keysState) { s.typ = "1" }},
	{"and (ARGV[from + 8] or '') == ''", "", func(s *keysState) {
		s.settles.Lease, s.settles.Idle = true, 500*time.Millisecond
	}},
	{" and not f[5]", "", field("longest", fmt.Sprintf("5000 %d 3 7", theTime+9000))},
	{"rate % 1 +", "", field("rate", "10.5")},
	{" interval % 1 +", "", field("interval", "1000.5")},
	{"math.max(rate, interval)", "interval", field("rate", "9007199254740994")},
	{"math.max(rate, interval)", "rate", field("interval", "1e300")},
	{"since > now - interval", "true", func(s *keysState) { s.records[0].Score = theTime - 1000 }},
	{" + value % 1", "", func(s *keysState) { s.value = "2.5" }},
	{"value + p.free <= rate", "true", func(s *keysState) { s.value = "9" }},
	{"value - p.extra >= rate - MOST", "true", used(40, func(s *keysState) {
		s.value = "-9007199254740980"
	})},
	{" and p.reserved + p.extra <= FULL", "", used(1<<33, func(*keysState) {})},
	{"(not f[4] or f[4] < ARGV[3])", "true", field(mySession, sessionText(9, theTime))},
	{"redis.call('HLEN', KEYS[1]) < FEW", "true", used(4, func(s *keysState) {
		delete(s.hash, mySession)
		for i := range 20 {
			s.hash[fmt.Sprint("session:", i)] = sessionText(1, theTime-70_000)
		}
	})},
	{"string.sub(f[4], FROM, TO) == string.sub(at, 1, 9)", "true", used(4, func(s *keysState) {
		for i := range 20 {
			s.hash[fmt.Sprint("session:", i)] = sessionText(1, theTime-70_000)
		}
		s.hash[mySession] = sessionText(1, theTime-70_000)
	})},
	{"ttl > interval + 1000", "true", used(4, func(s *keysState) {
		s.ttl, s.hash["keepAliveTime"] = 1500*time.Millisecond, "5000"
	})},
	{" and not redis.call('ZSCORE', KEYS[3], p.beyond)", "", used(7, func(s *keysState) {
		r := s.settles.Records
		s.records = append(s.records, redis.Z{Score: theTime - 10, Member: wire.Beyond(r, len(r), 4)})
	})},
}
