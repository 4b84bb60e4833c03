package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/limit"
	"github.com/redisson-go/rratelimiter/limit/limittest"
)

const (
	keeps  = "yes"
	breaks = "no"
	untold = "-" // it cannot be asked, or does not say
)

type ruling struct{ Rule, Mark, Why string }

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

// The environment of the process that checks. Package testing runs tests only in a process that has nothing
// else to do.
const rulesEnv = "BENCH_RULES" // file for the rulings, address of Redis, interval

// measureRules has another process check all limiters.
func measureRules(ctx context.Context, s *scope) finding {
	dir := get(os.MkdirTemp("", "rules"))
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := get(os.Executable())
	file := filepath.Join(dir, "rules.json")
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s", rulesEnv, file, redistest.Start(s).Addr,
		amount(s, 2*time.Second, 300*time.Millisecond)))
	if out, err := cmd.CombinedOutput(); err != nil {
		must(fmt.Errorf("%w:\n%s", err, out))
	}
	text := get(os.ReadFile(file))
	var found []judgement
	must(json.Unmarshal(text, &found))
	return rulesFinding(found)
}

// rulesMain is the whole program in the process that measureRules starts, and returns in any other.
func rulesMain() {
	told := strings.Fields(os.Getenv(rulesEnv))
	if len(told) == 0 {
		return
	}
	os.Args = []string{os.Args[0], "-test.parallel=8", "-test.timeout=5m"}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "Rules", F: func(t *testing.T) {
		text, err := json.Marshal(judgeAll(t, told[1], get(time.ParseDuration(told[2]))))
		if err = errors.Join(err, os.WriteFile(told[0], text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}}}, nil, nil)
}

type judgement struct {
	Name  string
	Ours  bool
	Rules []ruling
}

// judgeAll checks some limiters at a time: they sleep more than they call.
func judgeAll(t *testing.T, addr string, interval time.Duration) []judgement {
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: 200})
	defer func() { _ = rdb.Close() }()
	var all []entrant
	for _, n := range natives {
		all = append(all, n.memory(), n.onRedis())
	}
	for _, r := range rivals {
		if r.judged {
			all = append(all, r)
		}
	}
	found := make([]judgement, len(all))
	t.Run("limiters", func(t *testing.T) {
		for i, e := range all {
			name := cmp.Or(e.rules, e.name)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				found[i] = judgement{name, e.ours, e.rulings(t, rdb, interval)}
			})
		}
	})
	return found
}

func (e *entrant) rulings(t *testing.T, rdb *redis.Client, interval time.Duration) (all []ruling) {
	t.Helper()
	for _, f := range e.findings(t, rdb, interval) {
		r := ruling{Rule: f.Rule, Mark: keeps}
		switch {
		case aboutWhat[f.Rule]&^e.tells != 0:
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

// findings calls package limittest: without keys where a rival has such a limiter.
func (e *entrant) findings(t *testing.T, rdb *redis.Client, interval time.Duration) []limittest.Finding {
	t.Helper()
	made := func(t *testing.T, name string, of terms) limit.Keyed {
		t.Helper()
		made := e.keyed
		if !e.ours && e.lone != nil {
			made = e.lone
		}
		return made(env{t, rdb, name, of}).tell
	}
	name := func() string { return fmt.Sprintf("%s:%d", t.Name(), names.Add(1)) }
	if !e.ours && e.lone != nil {
		return limittest.Check(t, limittest.Spec{
			New: func(t *testing.T, rate int64, interval time.Duration) limit.Limiter {
				t.Helper()
				l := made(t, "", terms{rate, interval})
				return limit.Func(func(ctx context.Context, n int64) (limit.Result, error) {
					return l.Allow(ctx, "", n)
				})
			},
			Algorithm: e.promise, Synctest: true, Interval: interval,
		})
	}
	spec := limittest.KeyedSpec{
		New: func(t *testing.T, rate int64, interval time.Duration) limit.Keyed {
			t.Helper()
			return made(t, name(), terms{rate, interval})
		},
		Algorithm: e.promise, Synctest: !e.redis && !e.real, Interval: interval,
	}
	if e.redis {
		spec.Pair = func(t *testing.T, rate int64, interval time.Duration) (limit.Keyed, limit.Keyed) {
			t.Helper()
			one := name()
			return made(t, one, terms{rate, interval}), made(t, one, terms{rate, interval})
		}
	}
	return limittest.CheckKeyed(t, spec)
}

type rulesData struct {
	Versions map[string]string // of all libraries of the page, by the names in modules

	Ours   int        // limiters of this library
	Rivals []string   // in the order of the marks
	Rows   []rulesRow // by rule
	Kept   []int      // by rival
	Broken []string   // what ours break
}

type rulesRow struct {
	Rule  string
	Marks []string
}

// rulesFinding makes the table. The rules are in the order in which the limiter that has most was asked: keys
// and Redis have some of their own.
func rulesFinding(found []judgement) finding {
	d := &rulesData{Versions: map[string]string{}}
	for name, path := range modules {
		d.Versions[name] = moduleVersion(path)
	}
	var rules []ruling
	for _, j := range found {
		if len(j.Rules) > len(rules) {
			rules = j.Rules
		}
		if j.Ours {
			d.Ours++
		} else {
			d.Rivals = append(d.Rivals, j.Name)
		}
	}
	d.Kept = make([]int, len(d.Rivals))
	for _, r := range rules {
		d.Rows = append(d.Rows, d.row(r.Rule, found))
	}
	return finding{d, []target{most("T16", "rules of package limit that limiters of this library break",
		num(len(d.Broken)), 0, "")}}
}

func (d *rulesData) row(rule string, found []judgement) rulesRow {
	row := rulesRow{Rule: rule}
	for _, j := range found {
		got := ruling{Mark: untold}
		if i := slices.IndexFunc(j.Rules, func(r ruling) bool { return r.Rule == rule }); i >= 0 {
			got = j.Rules[i]
		}
		if j.Ours {
			if got.Mark == breaks {
				d.Broken = append(d.Broken, fmt.Sprintf("%s: %s: %s", j.Name, rule, got.Why))
			}
			continue
		}
		if got.Mark == keeps {
			d.Kept[len(row.Marks)]++
		}
		row.Marks = append(row.Marks, got.Mark)
	}
	return row
}
