package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// longestScript is how long a script of the fuzzer may take on a busy machine. With a
// few hundred records a script takes less than 10 ms.
const longestScript = time.Second

// FuzzMerged: hash, value and records hold anything. Each script that reads them ends
// soon and replies integers or a code, also where it judges many runs.
func FuzzMerged(f *testing.F) {
	// The first seed has a rate of 5, an interval of 0, no value, no records, and one
	// call for 7 requests of one permit. Further seeds are random, with limits like it.
	f.Add([]byte{3, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0})
	random := rand.New(rand.NewPCG(3, 4))
	for i := range redistest.Rounds(f, 300) {
		program := make([]byte, 20+random.IntN(250))
		for i := range program {
			program[i] = byte(random.Uint32())
		}
		copy(program, []byte{byte(3 + i%3), byte(i % 9), 0, byte(i % 2)})
		f.Add(program)
	}
	server := redistest.Start(f)
	rdb := server.Client(f, func(o *redis.Options) { o.ReadTimeout, o.MaxRetries = 4*longestScript, -1 })
	slow := fmt.Sprint(longestScript.Microseconds())
	if err := rdb.ConfigSet(f.Context(), "slowlog-log-slower-than", slow).Err(); err != nil {
		f.Fatal(err)
	}
	longest := time.Duration(0)
	f.Cleanup(func() { f.Logf("the longest call took %v", longest) })
	f.Fuzz(func(t *testing.T, program []byte) {
		if longest > longestScript {
			t.Skip("a script may be running still")
		}
		g := &merged{T: t, rdb: rdb, program: program, name: redistest.Name(t)}
		defer func() { longest = max(longest, g.longest) }()
		g.run()
		if slow := rdb.SlowLogGet(t.Context(), 1).Val(); len(slow) > 0 {
			t.Fatalf("%v took %v", slow[0].Args, slow[0].Duration)
		}
	})
}

// merged is one input of the fuzzer.
type merged struct {
	*testing.T
	rdb     *redis.Client
	program []byte
	name    string
	longest time.Duration
}

// next returns the next byte of the program, 0 at its end.
func (g *merged) next() (x byte) {
	if len(g.program) > 0 {
		x, g.program = g.program[0], g.program[1:]
	}
	return x
}

// one returns one of the values: the next byte of the program says which.
func one[T any](g *merged, of ...T) T { return of[int(g.next())%len(of)] }

// run writes the keys and calls scripts on them, as the program says.
func (g *merged) run() {
	ctx := g.Context()
	keys := []string{g.name, "{" + g.name + "}:value", "{" + g.name + "}:permits"}
	now := time.Now().UnixMilli()
	numbers := []string{"0", "1", "-1", "5", "10", "1000", "-1000", "9007199254740992",
		"-9007199254740992", "9007199254740991", "1e3", "0x10", "4294967295"}
	g.rdb.HSet(ctx, keys[0], "rate", one(g, numbers...), "interval", one(g, numbers...),
		"type", one(g, "0", "0", "0", "1", "x"),
		"keepAliveTime", one(g, "0", "0", "60000", "-1", "9007199254740992"))
	texts := append(numbers, "", "inf", "-inf", "nan", "1e300", "-1e17", "x", "3", "7", "-5")
	if text := one(g, texts...); text != "" {
		g.rdb.Set(ctx, keys[1], text, 0)
	}
	for range one(g, 0, 1, 2, 3, 10, 120, 600) {
		g.rdb.Do(ctx, "ZADD", keys[2], g.score(now), g.member())
	}
	var fields []any
	for i := range one(g, 0, 0, 0, 1, 9, 20, 300, 3000) {
		fields = append(fields, fmt.Sprint("session:", i), g.session(now))
	}
	if len(fields) > 0 {
		g.rdb.HSet(ctx, keys[0], fields...)
	}
	for range 1 + int(g.next())%6 {
		if g.next()%2 == 0 {
			g.rdb.HSet(ctx, keys[0], mySession, g.session(now))
		}
		g.call(keys, now)
	}
	g.rdb.Unlink(context.WithoutCancel(ctx), keys...)
}

// mySession is the field of the hash for the Client that calls the scripts.
const mySession = "session:a"

// session returns the text of a session: as Go writes it, or anything.
func (g *merged) session(now int64) string {
	huge := strings.Repeat("9", 10_000)
	number := func() string {
		return one(g, fmt.Sprint(g.next()%10), fmt.Sprint(g.next()), fmt.Sprint(now), fmt.Sprint(now-61_000),
			"0", "-1", "-5", "4294967296", "9007199254740993", "1e3", "0x10", "inf", "nan", "1.5", "",
			strings.Repeat("9", 400), huge)
	}
	text := fmt.Sprintf("%s %d %d %d", wire.Number(int64(g.next()%10)), now-int64(g.next()),
		int64(g.next())-20, now-int64(g.next()))
	switch g.next() % 6 {
	case 0:
		text = strings.Join([]string{number(), number(), number(), number()}, " ")
	case 1:
		text = strings.Join([]string{number(), number(), number(), number(), number()}, " ")
	case 2:
		text = one(g, "", " ", huge, strings.Repeat("1 ", 5_000), strings.Repeat(" ", 10_000), "\x00\xff",
			text+"\n", text+" x", number())
	case 3:
		text += " " + number()
	}
	return text
}

// score returns the time of a record: near now, far from it, or no time at all.
func (g *merged) score(now int64) any {
	b := int64(g.next())
	return one[any](g, now, now-b, now+b, now-1000*b, now+1000*b, float64(now)+0.5,
		"inf", "-inf", 0, -b, 1e300,
		int64(1)<<53, float64(now)-float64(b)/3)
}

// member returns a record of Java or of Go in any format, merged or not, or no record.
func (g *merged) member() string {
	b := make([]byte, 0, 40)
	switch permits := one[uint32](g, 0, 1, 2, 5, math.MaxUint32, uint32(g.next())); g.next() % 6 {
	case 0:
		return strings.Repeat(string(rune('a'+g.next()%26)), int(g.next())%30)
	case 1:
		java := fmt.Appendf(nil, "\x10%016d", g.next())
		return string(binary.LittleEndian.AppendUint32(java, permits))
	default:
		f := one(g, wire.Bc0I16, wire.Bc0I8, wire.Lc0I, wire.FI)
		return string(wire.Layouts[f].Append(b, permits, g.next()%2 == 0))
	}
}

// call runs one script with arguments such as Go sends, and checks the reply.
func (g *merged) call(keys []string, now int64) {
	sc, args := g.arguments(now)
	argv := args.argv(one(g, wire.Overall, wire.Overall, wire.Overall, wire.PerClient))
	start := time.Now()
	val, err := g.rdb.Eval(g.Context(), sc.Source, keys, argv...).Result()
	g.longest = max(g.longest, time.Since(start))
	if err == nil {
		_, err = redisx.Decode(val)
	}
	hasCode := func(code string) bool { return redis.HasErrorPrefix(err, code+" ") }
	if err != nil && !slices.ContainsFunc([]string{"BADFIELD", "NOTINIT", "OTHERTYPE"}, hasCode) {
		g.Fatalf("%.300q: %v", argv, err)
	}
}

// arguments chooses a script, and its arguments without the type.
func (g *merged) arguments(now int64) (*redisx.Script, given) {
	format, merges := one(g, wire.Bc0I16, wire.Bc0I16, wire.Bc0I8, wire.Lc0I, wire.FI), g.next()%2 == 0
	runs, permits := g.runs()
	layout := wire.Layouts[format]
	a := given{
		argSession: mySession,
		argNumber:  wire.Number(one[int64](g, 1, 2, 5, 7, 9, 10, 200, 1<<53)),
		argPermits: permits,
		argRecords: layout.AppendAll(nil, permits, merges),
		argNow:     one[any](g, "", "", now, now+500, now-3_600_000),
		argResent:  one[any](g, "", "", 0, 50, 5000, now),
		argNumbers: one[any](g, "", "", 1),
	}
	if g.next()%2 == 0 {
		a[argAfter] = wire.Number(one[int64](g, 0, 1, 4, 6, 9, 199, 1<<52))
		a[argKept] = one[any](g, 0, 1, 3, 100, int64(keptAll))
		a[argChannel] = "c"
	}
	switch g.next() % 8 {
	case 0, 1, 2:
		a[argResolution] = one[any](g, "", "", 0, 1, 10, 3_600_000)
		for i, n := range runs {
			a[argRuns+i] = n
		}
		return acquireScript, a
	case 3, 4:
		a[argPermits], a[argRecords], a[argChannel] = one[any](g, 0, permits, permits, 1), "", "c"
		return releaseScript, a
	case 5:
		return peekScript, given{argSession: mySession, argPermits: permits, argNow: a[argNow]}
	case 6:
		return setRateScript, given{2: one(g, 1, 5, 1000), 3: one(g, 1, 1000), 4: one(g, 0, 60_000),
			5: one(g, "0", "1"), argNow: a[argNow], 7: one(g, "0", "1"), argChannel: "c"}
	default:
		return repairScript, given{argSession: mySession, argPermits: one(g, 0, 2, now),
			argRecords: layout.Append(nil, 1, false), argNow: a[argNow], argChannel: "c",
			12: layout.Header, 13: one(g, 2000, 5)}
	}
}

// runs chooses runs, as they stand in ARGV, and returns the permits of all together. A
// single request has no runs.
func (g *merged) runs() (runs []any, permits int64) {
	for range 1 + int(g.next())%8 {
		n, many := one[int64](g, 1, 2, 3, 5, 1000, 1<<32, 1<<40), one[int64](g, 1, -1, 2, -3, 7, -100)
		runs = append(runs, n, many)
		permits += n * max(many, -many)
	}
	if permits > 1<<40 {
		return nil, 1 << 40
	}
	if len(runs) == 2 && (runs[1] == int64(1) || runs[1] == int64(-1)) {
		return nil, permits
	}
	return runs, permits
}
