package engine

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/scripts"
)

// halves runs a state through acquire.lua with its first half, without it, and through the first half alone.
type halves struct {
	*testing.T
	conn *redis.Conn
	then string // a script that follows with the same arguments; none if it is empty
}

const fellThrough = "FELLTHROUGH"

func newHalves(t *testing.T) *halves {
	conn := redistest.Start(t).Client(t).Conn()
	t.Cleanup(func() { _ = conn.Close() })
	return &halves{T: t, conn: conn}
}

// halfSources returns acquire.lua, its second half behind a first one that never decides, and its first half.
func halfSources(t *testing.T) (whole, second, first string) {
	t.Helper()
	const condition, firstCall = "right = usual and rate", "if seen.none and ARGV[1]"
	const end = "-- include parts/common.lua\n"
	file, err := scripts.Files.ReadFile("acquire.lua")
	if err != nil || !strings.Contains(string(file), end) {
		t.Fatal(err, "no line that ends the first half")
	}
	whole = redisx.Included(scripts.Files, "acquire.lua")
	second = strings.Replace(whole, condition, "right = false and rate", 1)
	none := strings.Replace(second, firstCall, "if false and ARGV[1]", 1)
	if second == whole || second == none {
		t.Fatal("no condition of the first half")
	}
	second = none
	before, _, _ := strings.Cut(string(file), end)
	for _, part := range []string{"parts/common_case.lua", "parts/first_call.lua"} {
		before += redisx.Included(scripts.Files, part)
	}
	return whole, second, strings.ReplaceAll(before, "-- include", "--") +
		"return redis.error_reply('" + fellThrough + "')\n"
}

// run returns what each of the scripts replies and leaves, and how long all of them took. All is one
// transaction, so that times to live can be compared. Each limiter of the scripts has a state.
func (h *halves) run(sources []string, states ...*keysState) (outcomes []outcome, took time.Duration) {
	h.Helper()
	ctx, args := h.Context(), argvOf(states)
	var keys []string
	for i := range states {
		keys = append(keys, keysOfState(i)...)
	}
	var times [2]*redis.TimeCmd
	var cmds [][]redis.Cmder
	_, _ = h.conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
		times[0] = p.Time(ctx)
		for _, source := range sources {
			p.Del(ctx, keys...)
			for i, s := range states {
				s.write(ctx, p, keysOfState(i))
			}
			left := []redis.Cmder{p.Eval(ctx, source, keys, args...)}
			if h.then != "" {
				p.Eval(ctx, h.then, keys, args...)
			}
			for i := range states {
				k := keysOfState(i)
				left = append(left,
					p.HGetAll(ctx, k[0]), p.Get(ctx, k[1]), p.ZRangeWithScores(ctx, k[2], 0, -1),
					p.PTTL(ctx, k[0]), p.PTTL(ctx, k[1]), p.PTTL(ctx, k[2]))
			}
			cmds = append(cmds, left)
		}
		times[1] = p.Time(ctx)
		return nil
	})
	for _, c := range cmds {
		o := outcome{reply: fmt.Sprint(c[0].(*redis.Cmd).Val(), c[0].Err())}
		for _, cmd := range c[1:] {
			if ttl, is := cmd.(*redis.DurationCmd); is {
				o.ttls = append(o.ttls, ttl.Val())
			} else {
				o.keys += fmt.Sprintf("%q ", fmt.Sprint(cmd))
			}
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, times[1].Val().Sub(times[0].Val())
}

// keysOfState returns the keys of one of the states.
func keysOfState(i int) []string {
	name := "l" + strings.Repeat("l", i)
	return []string{name, "{" + name + "}:value", "{" + name + "}:permits"}
}

// argvOf returns the arguments of acquire.lua for one state, and of all.lua for several. The first state has
// the arguments that all limiters share.
func argvOf(states []*keysState) []any {
	first := states[0]
	if first.settles != nil {
		return argvOfSettle(states)
	}
	if len(states) == 1 {
		return first.args.argv(first.typ)
	}
	args := make([]any, argMembers-1+len(argsOfEach)*(len(states)-1))
	for place := range args {
		args[place] = ""
	}
	for _, place := range []int{argSession, argNumber, argNow, argResent, argNumbers, argResolution} {
		if v := first.args[place]; v != nil {
			args[place-1] = v
		}
	}
	for i, s := range states {
		args[argOf(argType, i)-1] = s.typ
		for _, place := range []int{argPermits, argRecords, argGivenRate} {
			if v := s.args[place]; v != nil {
				args[argOf(place, i)-1] = v
			}
		}
	}
	return args
}

// write writes the keys.
func (s *keysState) write(ctx context.Context, p redis.Pipeliner, keys []string) {
	if len(s.hash) > 0 {
		p.HSet(ctx, keys[0], s.hash)
	}
	if list, is := s.value.([]any); is {
		p.RPush(ctx, keys[1], list...)
	} else if s.value != nil {
		p.Set(ctx, keys[1], s.value, 0)
	}
	if s.list {
		p.RPush(ctx, keys[2], "x")
	} else if len(s.records) > 0 {
		p.ZAdd(ctx, keys[2], s.records...)
	}
	for i, key := range keys {
		if ttl := cmp.Or(s.ttls[i], s.ttl); ttl > 0 {
			p.PExpire(ctx, key, ttl)
		}
	}
}

// An outcome is the reply of a script, what the keys hold after it, and how long they live.
type outcome struct {
	reply, keys string
	ttls        []time.Duration
}

// differs reports whether two outcomes are not the same, for scripts that ran within a time.
func (o outcome) differs(other outcome, within time.Duration) bool {
	for i, ttl := range o.ttls {
		if (ttl - other.ttls[i]).Abs() > within+2*time.Millisecond {
			return true
		}
	}
	ends := slices.Max(o.ttls) > 0
	return o.keys != other.keys || o.reply != other.reply && !(ends && alike(o.reply, other.reply, within))
}

// alike reports whether two replies differ only in numbers, by less than a time to live may have shrunk
// meanwhile, in ms or us: a limiter that ends soon gives all permits back then.
func alike(reply, other string, within time.Duration) bool {
	numbers, others := strings.Fields(strings.Trim(reply, "[]")), strings.Fields(strings.Trim(other, "[]"))
	if len(numbers) != len(others) {
		return false
	}
	for i := range numbers {
		n, err := strconv.ParseInt(strings.Trim(numbers[i], "[]"), 10, 64)
		m, err2 := strconv.ParseInt(strings.Trim(others[i], "[]"), 10, 64)
		unit := time.Millisecond
		if n > 50_000 { // ms are fewer, or differ by less
			unit = time.Microsecond
		}
		if numbers[i] != others[i] && (err != nil || err2 != nil || n < 100 ||
			time.Duration(n-m).Abs()*unit > within+2*time.Millisecond) {
			return false
		}
	}
	return true
}

// Random states, most of them with something wrong, are left alike with and without the first half.
func TestHalvesAgreeOnAnyState(t *testing.T) {
	whole, second, first := halfSources(t)
	agreeOnAnyState(t, 1, whole, second, first)
}

// The same holds for calls of a Group.
func TestHalvesOfAGroupAgreeOnAnyState(t *testing.T) {
	for _, limiters := range []int{2, 3} {
		whole, second, first := groupSources(t, "all.lua", limiters)
		agreeOnAnyState(t, limiters, whole, second, first)
	}
}

// groupSources is halfSources for a script of some limiters.
func groupSources(t *testing.T, file string, limiters int) (whole, second, first string) {
	t.Helper()
	const condition, end = "if common then", "local function count("
	whole = forMembers(file, limiters).Source
	second = strings.Replace(whole, condition, "if false then", 1)
	first, _, found := strings.Cut(whole, end)
	if second == whole || !found {
		t.Fatal("no condition or no end of the first half")
	}
	return whole, second, first + "return redis.error_reply('" + fellThrough + "')\n"
}

// agreeOnAnyState runs random states through the first two sources, which must end alike, and the third one,
// which decides some of them.
func agreeOnAnyState(t *testing.T, limiters int, sources ...string) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 2))
	h := newHalves(t)
	decided, rounds := 0, 3000
	if testing.Short() {
		rounds = 600
	}
	for range rounds {
		states := make([]*keysState, limiters)
		for i := range states {
			states[i] = newKeysState()
			for range random.IntN(5) / limiters {
				spoilers[random.IntN(len(spoilers))](states[i], random)
			}
		}
		got, took := h.run(sources, states...)
		if got[0].differs(got[1], took) {
			t.Fatalf("%+v\nwith the first half %+v\nwithout            %+v", states, got[0], got[1])
		}
		if !strings.Contains(got[2].reply, fellThrough) {
			decided++
		}
	}
	if decided < rounds/5 {
		t.Errorf("the first half decided %d of %d states; the others show nothing", decided, rounds)
	}
}
