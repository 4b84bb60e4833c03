package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

// rulesPart is a table of the rules of package limit that limiters keep: those of this
// library, and those of others behind adapters that add nothing.
var rulesPart = &part{
	name: "rules", set: setPage, measure: measureRules,
	about: "which rules of package limit each limiter keeps, by package limittest",
}

// The marks of the table.
const (
	keeps  = "yes"
	breaks = "no"
	untold = "-" // it cannot be asked, or does not say
)

// A ruling is what has come of a rule.
type ruling struct{ Rule, Mark, Why string }

// A judged is a limiter whose rules are checked. It has keyed or lone.
type judged struct {
	name    string
	ours    bool
	promise limittest.Algorithm
	tells   tells
	redis   bool // it is on Redis
	real    bool // it has a clock that package synctest cannot fake
	keyed   keyedMaker
	lone    func(of terms) limit.Limiter
}

// A keyedMaker makes a limiter of a name with keys. One in memory aboutWhat neither t nor
// rdb.
type keyedMaker func(t *testing.T, rdb *redis.Client, name string, of terms) limit.Keyed

// tells are what a limiter can be asked or says.
type tells int

const (
	tellsMany      tells = 1 << iota // takes more than one permit in a call
	tellsContext                     // has the context of a call
	tellsLimit                       // the permits
	tellsInterval                    // their interval
	tellsRemaining                   // what is left
	tellsRetry                       // when to try again
	tellsReset                       // when all are back
	tellsAll       = 1<<iota - 1
)

// aboutWhat is what rules are about. Without it they cannot be checked.
var aboutWhat = map[string]tells{
	"n below 1 is an ErrInvalidArgument and takes nothing":          tellsMany,
	"n above the rate is an ErrPermitsExceedRate and takes nothing": tellsMany,
	"a context that has ended takes nothing":                        tellsContext,
	"a context that ends during a call keeps nothing":               tellsContext | tellsRemaining,
	"several permits are granted all or none":                       tellsMany,
	"a refusal takes nothing":                                       tellsMany | tellsRetry,
	"Limit and Interval are those of the limiter":                   tellsLimit | tellsInterval,
	"Remaining is what is left":                                     tellsRemaining | tellsMany,
	"RetryAfter is 0 if allowed and above 0 if refused":             tellsRetry,
	"after RetryAfter the permits are there":                        tellsRetry,
	"before RetryAfter the permits are not there":                   tellsRetry,
	"ResetAfter is between RetryAfter and the interval":             tellsReset,
	"after ResetAfter all permits are there":                        tellsReset,
	"a Result agrees with itself":                                   tellsLimit | tellsRemaining | tellsMany,
	"two handles share one limit":                                   tellsRemaining,
	"keys do not know of each other":                                tellsRemaining,
	"many keys have a limit each":                                   tellsRemaining,
}

// The environment of the process that checks. Package testing runs tests only in a
// process that has nothing else to do.
const (
	rulesFile     = "BENCH_RULES_FILE" // for the rulings
	rulesAddr     = "BENCH_RULES_ADDR" // of Redis
	rulesInterval = "BENCH_RULES_INTERVAL"
)

// measureRules has another process check all limiters.
func measureRules(ctx context.Context, s *scope) (finding, error) {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		return finding{}, err
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	program, err := os.Executable()
	if err != nil {
		return finding{}, err
	}
	file := filepath.Join(dir, "rules.json")
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), rulesFile+"="+file, rulesAddr+"="+redistest.Start(s).Addr,
		rulesInterval+"="+amount(s, 2*time.Second, 300*time.Millisecond).String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return finding{}, fmt.Errorf("%w:\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return finding{}, err
	}
	var found []judgement
	if err := json.Unmarshal(text, &found); err != nil {
		return finding{}, err
	}
	d := rulesDataOf(found)
	d.Versions = versions()
	return finding{d, d.targets()}, nil
}

// rulesMain is the whole program in the process that measureRules starts, and returns
// in any other.
func rulesMain() {
	file, ok := os.LookupEnv(rulesFile)
	if !ok {
		return
	}
	os.Args = []string{os.Args[0], "-test.parallel=8", "-test.timeout=5m"}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "Rules", F: func(t *testing.T) {
		text, err := json.Marshal(judgeAll(t))
		if err = errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}}}, nil, nil)
}

// A judgement is what has come of the rules of one limiter.
type judgement struct {
	Name  string
	Ours  bool
	Rules []ruling
}

// judgeAll checks some limiters at a time: they sleep more than they call.
func judgeAll(t *testing.T) []judgement {
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv(rulesAddr), PoolSize: 200})
	defer func() { _ = rdb.Close() }()
	interval, err := time.ParseDuration(os.Getenv(rulesInterval))
	if err != nil {
		t.Fatal(err)
	}
	all := allJudged()
	found := make([]judgement, len(all))
	t.Run("limiters", func(t *testing.T) {
		for i, j := range all {
			t.Run(j.name, func(t *testing.T) {
				t.Parallel()
				found[i] = judgement{j.name, j.ours, j.rulings(t, rdb, interval)}
			})
		}
	})
	return found
}

// rulings checks a limiter.
func (j *judged) rulings(t *testing.T, rdb *redis.Client, interval time.Duration) (all []ruling) {
	t.Helper()
	found := j.findings(t, rdb, interval)
	for _, f := range found {
		r := ruling{Rule: f.Rule, Mark: keeps}
		switch {
		case aboutWhat[f.Rule]&^j.tells != 0:
			r.Mark = untold
		case errors.Is(f.Err, limittest.ErrTooSlow): // the machine is too busy to know
			r.Mark, r.Why = untold, f.Err.Error()
		case f.Err != nil:
			r.Mark, r.Why = breaks, f.Err.Error()
		}
		all = append(all, r)
	}
	return all
}

// names tells limiters on one Redis apart.
var names atomic.Int64

// findings calls package limittest.
func (j *judged) findings(t *testing.T, rdb *redis.Client, interval time.Duration) []limittest.Finding {
	t.Helper()
	name := func() string { return fmt.Sprintf("%s:%d", t.Name(), names.Add(1)) }
	if j.keyed == nil {
		return limittest.Check(t, limittest.Spec{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
				t.Helper()
				return j.lone(terms{rate, interval})
			},
			Algorithm: j.promise, Synctest: true, Interval: interval,
		})
	}
	spec := limittest.KeyedSpec{
		New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
			t.Helper()
			return j.keyed(t, rdb, name(), terms{rate, interval})
		},
		Algorithm: j.promise, Synctest: !j.redis && !j.real, Interval: interval,
	}
	if j.redis {
		spec.Pair = func(t *testing.T, rate int64, interval time.Duration) (limit.Keyed, limit.Keyed) {
			t.Helper()
			one := name()
			return j.keyed(t, rdb, one, terms{rate, interval}), j.keyed(t, rdb, one, terms{rate, interval})
		}
	}
	return limittest.CheckKeyed(t, spec)
}
