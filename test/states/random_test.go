package states_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// An again is a caller whose requests are sent twice, because of an error of the first copies. Those of
// errNever have not arrived: then the scripts judge the second copies, by their general case.
type again struct {
	caller
	*Failures
	err error
}

var errNever = io.ErrUnexpectedEOF

func sentAgain(err error, calls func(l *Limiter) caller) func(l *Limiter) caller {
	return func(l *Limiter) caller { return &again{calls(l), Failing(l.RDB), err} }
}

// loses loses the first copy of a request, or its reply.
func (a *again) loses(call func()) {
	a.Next(a.err)
	call()
	a.Next() // not each request is sent
}

func (a *again) Allow(ctx context.Context, permits int64) (r rratelimiter.Result, err error) {
	a.loses(func() { r, err = a.caller.Allow(ctx, permits) })
	return r, err
}

func (a *again) Release(ctx context.Context, permits int64) (err error) {
	a.loses(func() { err = a.caller.Release(ctx, permits) })
	return err
}

// A reserver is a limiter or a Group.
type reserver interface {
	Charge(ctx context.Context, permits int64) (rratelimiter.Result, error)
	TryReserve(ctx context.Context, permits int64) (*rratelimiter.Reservation, rratelimiter.Result, error)
}

// uses reserves permits, and settles to some others.
func uses(ctx context.Context, calls caller, permits, used int64) (result string) {
	loses := func(call func()) { call() }
	if a, ok := calls.(*again); ok {
		calls, loses = a.caller, a.loses
	}
	var r *rratelimiter.Reservation
	var err error
	loses(func() { r, _, err = calls.(reserver).TryReserve(ctx, permits) })
	if r == nil || err != nil {
		return fmt.Sprint(false, err)
	}
	loses(func() { err = r.Settle(ctx, used) })
	return fmt.Sprint(true, err)
}

// hurries sends a request again without a pause.
func hurries(o *redis.Options) { o.MinRetryBackoff, o.MaxRetryBackoff = 1, 1 }

// randomRow returns random steps. None fails, or takes more than the rate: then what is sent again notes
// more. Either other programs write as well, or reservations are settled, which puts no value right.
func randomRow(random *rand.Rand) (row []string) {
	of := func(all ...string) string { return all[random.IntN(len(all))] }
	each := of("", " each")
	row = append(row, "rate "+of("20", "40")+" 1s"+of("", "", " 1h")+each)
	kinds := []string{"take $N", "take $N", "take $N", "take $N", "give $N", "+100", "+250", "+1000",
		"+61000", "other take $N", "rate $R 1s" + each, "rate $R 300ms keep" + each,
		"rate $R 1s keep 1h" + each}
	if random.IntN(3) == 0 {
		kinds = append(kinds, "use $N $N", "use $N $N", "use $N $N", "use $N 0")
	} else {
		kinds = append(kinds, "take $N", "take $N", "give $N", "value! $V", "value! $N", "record! $N $T",
			"record! $N $T", "record! -", "hash! longest x", "hash! rate $R", "hash! keepAliveTime -",
			"hash! keepAliveTime 3600000")
	}
	for range 40 {
		step := strings.NewReplacer("$R", of("20", "25", "40"),
			"$T", of("-1", "-202", "-1003", "-5004", "5", "56", "5007"), // of no ms of another record
			"$V", of("-", "0", "-3", "1", "5", "12", "20", "7.5", "1e3", "x", "inf", "-1e300", "010"),
		).Replace(of(kinds...))
		for strings.Contains(step, "$N") {
			step = strings.Replace(step, "$N", of("1", "1", "1", "2", "3", "7", "12", "20"), 1)
		}
		row = append(row, step)
	}
	return row
}

// outcomes does the steps of a row, and returns what came of each.
func (p *play) outcomes(row []string) (all []string) {
	p.Helper()
	start := p.Now
	for _, step := range row {
		came, heals := "", true
		p.Now += 10
		words, by := strings.Fields(step), p
		if words[0] == "other" {
			words, by = words[1:], p.byAnother()
		}
		switch words[0] {
		case "take":
			r, err := by.calls.Allow(p.Context(), p.whole(words[1]))
			came = fmt.Sprint(r.Allowed, r.RetryAfter, err)
		case "give":
			came = fmt.Sprint(p.calls.Release(p.Context(), p.whole(words[1])))
		case "use":
			came, heals = uses(p.Context(), p.calls, p.whole(words[1]), p.whole(words[2])), false
		default:
			heals = false
			p.does(step)
		}
		if heals {
			came += "; " + p.state(start)
		}
		all = append(all, step+": "+came)
	}
	return all
}

// state returns what is in Redis. Records of one ms, which are in any order, are one.
func (p *play) state(start int64) string {
	value, permits := p.pair()
	pipe := p.Look.Pipeline()
	text, records := pipe.Get(p.Context(), value), pipe.ZRangeWithScores(p.Context(), permits, 0, -1)
	fields := pipe.HMGet(p.Context(), p.Name(), "rate", "interval", "type", "keepAliveTime")
	_, _ = pipe.Exec(p.Context()) // its error says that there is no value
	p.Want(errors.Join(records.Err(), fields.Err()))
	state := fmt.Sprint(text.Val(), " ", fields.Val())
	for all, sum := records.Val(), int64(0); len(all) > 0; all = all[1:] {
		n, _ := wire.Permits(all[0].Member.(string))
		if sum += n; len(all) == 1 || all[1].Score != all[0].Score {
			state += fmt.Sprintf(" %d at %.0f", sum, all[0].Score-float64(start))
			sum = 0
		}
	}
	return state
}

// Random rows come out alike on miniredis and on Redis, and whether the scripts judge a request by their
// first half or by the general case.
func TestRandomRowsComeOutAlike(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	mini, server := redistest.Mini(t), redistest.Start(t)
	benches, others := map[string]*Bench{}, map[string]*rratelimiter.Client{}
	for _, sent := range []string{"", ", sent again"} {
		for on, rdb := range map[string]*redis.Client{
			"miniredis": redistest.MiniClient(t, mini, hurries), "Redis": server.Client(t, hurries),
		} {
			benches[on+sent] = NewBench(t, rdb, rdb)
			others[on+sent] = benches[on+sent].NewClient()
		}
	}
	lost := map[string]*Failures{}
	for name, b := range benches {
		if strings.HasSuffix(name, "again") {
			lost[name] = Failing(b.RDB)
		}
	}
	for n := range redistest.Rounds(t, 160) {
		row, want, of := randomRow(random), []string(nil), ""
		for name, b := range benches {
			b.Now = 1_700_000_000_000 + int64(n)*10_000_019
			l := b.NewLimiter(Overall, 0, 0)
			other := l.By(others[name])
			p := &play{Limiter: l, calls: l.RateLimiter,
				another: &play{Limiter: other, calls: other.RateLimiter}}
			if n%2 == 0 {
				p.calls = inGroup(l)
			}
			if lost[name] != nil {
				p.calls = &again{p.calls, lost[name], errNever}
			}
			got := p.outcomes(row)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s\non %s, and\n%s\non %s, after\n%s", want[i], of, got[i], name,
						strings.Join(row[:i], "; "))
				}
			}
			want, of = got, name
			b.Want(b.RDB.FlushDB(t.Context()).Err()) // keys that end make miniredis slow
		}
	}
}
