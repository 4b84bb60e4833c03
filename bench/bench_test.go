package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/shares"
)

func TestMain(m *testing.M) {
	shares.Main()
	rulesMain()
	redistest.VerifyNoLeaks(m)
}

// brief are options that measure as little as shows that everything works.
func brief(docs string) options { return options{rounds: 1, docs: docs, brief: true} }

// needs skips a test where a program is missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		redistest.Require(t, program)
	}
}

func TestRun(t *testing.T) {
	needs(t, "redis-server", "java", "mvn")
	docs := t.TempDir()
	var out strings.Builder
	if err := run(t.Context(), &out, brief(docs), nil); err != nil {
		t.Fatal(err)
	}
	const number, signed = ` [\d.,]+ \|`, ` -?[\d.,]+ \|`
	for _, line := range []string{
		`\| this library \|(` + number + `){2}$`,
		`\| Redisson \|(` + number + `){2}$`,
		`!\[Acquires per second\]\(bench-throughput.svg\)$`,
		`\| T1 \| acquires per second, 64 callers: this library by Redisson \| ` +
			`at least 14 \|` + number,
		`\| T2 \| p50, 1 caller, .*` + number + ` (yes|no) \|`,
		`\| T4 \| 20 waiters at 100/s, permits come evenly: served out of order \| ` +
			`at most 0 \|` + number + ` (yes|no) \|`,
		`\| T5 \| 12,000 permits outstanding, `,
		`\| T8 \| heap after touching 200 names`,
		`\| this library \|(` + number + `){8}`,
		`\| rueidislimiter \|(` + number + `){8}`,
		`\| Redisson \|(` + number + `){7} - \|`,
		`\| a record for each permit \| 12,000 \| 12,000 \|(` + number + `){2}`,
		`\| resolution of a thousandth of the window \| 12,000 \|(` + number + `){3}`,
		`\| T9 \| 50 per 400ms, 4 Go, 4 Java: got by what was due, .* \| ` +
			`at least 0.35 \|` + number + ` (yes|no) \|`,
		`\| T9 \| 50 per 400ms, 4 processes of Go: Jain's fairness index \| ` +
			`at least 0.98 \|` + number + ` (yes|no) \|`,
		`\| 50 per 400ms, 4 Go, 4 Java \| 0.5 \|(` + number + `){7}`,
		`\| 50 per 400ms, 4 Go \| 50 \|(` + number + `){6}`,
		`\| Keyed.Allow, a new user \|(` + number + `){9}$`,
		`\| four limits, Allow \|(` + number + `){9}$`,
		`\| T10 \| round trips of a user's Allow \| at most 1 \| 1 \| yes \|$`,
		`\| this library, FencedLock \|(` + signed + `){8}$`,
		`\| Redisson, RLock \|(` + signed + `){5} - \|(` + signed + `){2}$`,
		`\| redsync \|(` + signed + `){7}$`,
		`\| bsm/redislock, each 100 ms \|(` + number + `){3} 1 \|(` + signed + `){3}$`,
		`\| Redisson, RLock \|(` + number + `){3} - \|(` + signed + `){3}$`,
		`\| rueidislock \|(` + number + `){3}$`,
		`\| T17 \| 8 callers, 4 processes, once each: script calls of a hand-over \| at most 3 \|`,
		`\| httprate-redis \|(` + number + `){5}$`,
		`\| ulule/limiter \| 200 \|(` + number + `){2} 0 \|`,
		`\| httplimit, refused \| -?[\d.,]+ \| \d+ \|$`,
		`\| TryAcquire of a user \|(` + number + `){3}`,
		`\| fixed window \| this library \|(` + number + `){7} - \|$`,
		`\| fixed window \| ulule/limiter \|(` + number + `){8} [\d., ]+ \|$`,
		`\| several permits are granted all or none \|( (yes|no|-) \|){11}$`,
	} {
		if !regexp.MustCompile(`(?m)^` + line).MatchString(out.String()) {
			t.Errorf("no line like %s", line)
		}
	}
	if strings.Contains(out.String(), "<no value>") {
		t.Error("a value is missing")
	}
	checkWritten(t, docs, out.String())
	if err := run(t.Context(), &out, options{docs: docs, redraw: true}, nil); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Log("printed:\n" + out.String())
	}
}

// checkWritten checks that the page is there, as it was printed and as it is
// written again from its figures, and that its pictures are.
func checkWritten(t *testing.T, docs, printed string) {
	t.Helper()
	var written string
	for _, file := range []string{pageFile, comparisonFile} {
		text, err := os.ReadFile(filepath.Join(docs, file))
		if err != nil {
			t.Error(err)
		}
		written += string(text)
	}
	if written != printed {
		t.Errorf("written: %d bytes, not %d", len(written), len(printed))
	}
	again := ""
	for _, page := range pagesFrom(t, docs) {
		again += page.text
	}
	if again != printed {
		t.Errorf("from the figures: %d bytes, not %d", len(again), len(printed))
	}
	for _, p := range pictures {
		picture, err := os.ReadFile(filepath.Join(docs, p.file+".svg"))
		if err != nil || !strings.Contains(string(picture), labels[ours]) {
			t.Errorf("%s: %v", p.file, err)
		}
	}
}

// pagesFrom returns the pages that the stored figures give.
func pagesFrom(t *testing.T, docs string) []page {
	t.Helper()
	r, err := loadReport(docs)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := r.pages()
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// A change of report.md, of comparison.md or of the figures must reach the pages.
func TestPagesAreUpToDate(t *testing.T) {
	const docs = "../docs"
	pages := pagesFrom(t, docs)
	if len(pages) != 2 {
		t.Errorf("%d pages", len(pages))
	}
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(docs, p.file))
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != p.text {
			t.Errorf("docs/%s is not what its figures give; `go run . -redraw` writes it", p.file)
		}
	}
}

func TestUnknownPart(t *testing.T) {
	err := run(t.Context(), new(strings.Builder), brief(""), []string{"waiters", "lunch"})
	if err == nil || !strings.Contains(err.Error(), `"lunch"`) {
		t.Errorf("error %v", err)
	}
}

// A part or a set is named once in the usage text, and selects what it says.
func TestParts(t *testing.T) {
	var out strings.Builder
	usageText(&out)
	seen := map[string]bool{}
	for _, p := range parts {
		if seen[p.name] || !slices.Contains(sets, p.set) || p.about == "" {
			t.Errorf("part %+v", p)
		}
		seen[p.name] = true
		if line := fmt.Sprintf("\n  %-9s %s\n", p.name, p.about); !strings.Contains(out.String(), line) {
			t.Errorf("%s is not in the usage text", p.name)
		}
	}
	wanted, err := selectParts([]string{"idle", "waiters", "idle"})
	if err != nil || len(wanted) != 2 || wanted[0] != waitersPart || wanted[1] != idlePart {
		t.Errorf("parts %v, %v", wanted, err)
	}
}

// An acquire that is refused is an error, not a figure.
func TestBatchRefused(t *testing.T) {
	s := scope{brief: true}
	var err error
	func() {
		defer func() { s.End(recover(), &err) }()
		server := redistest.Start(&s)
		name := redistest.Name(&s)
		c := s.client(server.Client(&s))
		l := c.RateLimiter(name)
		if _, err = l.TrySetRate(t.Context(), rratelimiter.Overall, 2, time.Hour); err != nil {
			return
		}
		_, err = s.runBatch(t.Context(), server.Admin(), same(tryAcquire(l), 2))
	}()
	if err == nil || err.Error() != "an acquire was refused" {
		t.Errorf("error %v", err)
	}
}

func TestHist(t *testing.T) {
	var h hist
	if h.quantile(0.5) != 0 {
		t.Error("no durations, but a median")
	}
	for d := range 100 {
		h.add(time.Duration(d+1) * time.Millisecond)
	}
	for part, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := millis(h.quantile(part)); math.Abs(got/want-1) > 0.035 {
			t.Errorf("quantile %g is %g ms, want %g", part, got, want)
		}
	}
	var both hist
	both.merge([]hist{})
	others := make([]hist, 2)
	others[0].add(time.Second)
	others[1].add(-1)
	others[1].add(time.Hour)
	both.merge(others)
	if both.total() != 3 {
		t.Errorf("merged %d", both.total())
	}
	for d := time.Duration(1); d < 1<<39; d += d/7 + 1 {
		if got := middle(bucket(d)); math.Abs(float64(got-d)) > float64(d)/32 {
			t.Fatalf("%d is taken for %d", d, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, test := range []struct {
		values     []float64
		part, want float64
	}{
		{nil, 0.5, 0},
		{[]float64{7}, 0.99, 7},
		{[]float64{3, 1, 2}, 0.5, 2},
		{[]float64{4, 3, 2, 1}, 0.5, 2},
		{[]float64{4, 3, 2, 1}, 0.99, 4},
		{[]float64{4, 3, 2, 1}, 0, 1},
	} {
		if got := quantile(test.values, test.part); math.Abs(got-test.want) > 0 {
			t.Errorf("quantile %g of %v is %g, want %g", test.part, test.values, got, test.want)
		}
	}
}

func TestParseUsage(t *testing.T) {
	info := map[string]map[string]string{
		"CPU": {"used_cpu_user": "1.5", "used_cpu_sys": "0.25"},
		"Commandstats": {
			"cmdstat_evalsha": "calls=4,usec=42,usec_per_call=10.50,rejected_calls=0,failed_calls=0",
			"cmdstat_hget":    "calls=16,usec=5,usec_per_call=0.31", "cmdstat_get": "calls=4,usec=1",
			"cmdstat_set": "calls=1,usec=1", "cmdstat_info": "calls=1,usec=9",
		},
	}
	u, err := parseUsage(info)
	if err != nil || u.cpu < 1.75 || u.cpu > 1.75 || u.scripts() != (command{4, 42}) {
		t.Errorf("%v, %v", u, err)
	}
	before := usage{1, map[string]command{"evalsha": {1, 2}, "get": {4, 1}}}
	got := u.since(before)
	if got.cpu < 0.75 || got.cpu > 0.75 || got.scripts() != (command{3, 40}) {
		t.Errorf("since: %v", got)
	}
	if got.commands["get"].calls > 0 {
		t.Errorf("a command of before was counted: %v", got)
	}
	if got, err := u.perScript(4); math.Abs(got-10.5) > 0 || err != nil {
		t.Errorf("time of a script: %v, %v", got, err)
	}
	if _, err := u.perScript(5); err == nil {
		t.Error("somebody else's script was counted")
	}
	info["Commandstats"]["cmdstat_eval"] = "calls=many"
	if _, err := parseUsage(info); err == nil {
		t.Error("a count that cannot be read was accepted")
	}
	delete(info, "CPU")
	if _, err := parseUsage(info); err == nil {
		t.Error("a time that is missing was accepted")
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.00912: "0.0091", 0.5: "0.5", 1: "1", 1.347: "1.35", 10: "10", 12.34: "12.3", 123.4: "123",
		1234.5: "1,234", 1234567: "1,230,000", -1234: "-1,234", math.Inf(1): "-",
	} {
		if got := figure(v); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
}

// A waiter that is served before its permit was due is found, and so is a
// record that was not seen.
func TestCompare(t *testing.T) {
	start := time.UnixMilli(1_000_000)
	record := func(permits byte, ms float64) redis.Z {
		member := strings.Repeat("x", 17) + string([]byte{permits, 0, 0, 0})
		return redis.Z{Member: member, Score: 1_000_000 + ms}
	}
	w := &waiting{n: 3, records: map[string]redis.Z{}}
	for _, z := range []redis.Z{record(2, 0), record(1, 10)} {
		w.records[z.Member.(string)] = z
	}
	at := func(ms ...int) {
		w.waiters = nil
		for i, one := range ms {
			w.waiters = append(w.waiters, waiter{
				came:   start.Add(time.Duration(i)),
				served: start.Add(time.Second + time.Duration(one)*time.Millisecond),
			})
		}
	}
	if at(1, 2, 13); true {
		early, typical, late := w.compare()
		if early != 0 || math.Abs(typical-2) > 1e-9 || math.Abs(late-3) > 1e-9 {
			t.Errorf("in order: %g early, %g ms late", early, late)
		}
	}
	if at(1, 12, 2); true {
		if early, _, _ := w.compare(); early != 1 {
			t.Errorf("one overtaken: %g early", early)
		}
	}
	w.n = 4
	if early, _, late := w.compare(); early != 4 || !math.IsInf(late, 1) {
		t.Errorf("too few records: %g early, %g ms late", early, late)
	}
}

func TestTargets(t *testing.T) {
	r := &callersResult{
		turns: [][]spread{make([]spread, alone+1)}, tables: []table{{callers: 512}, {callers: 4096}},
	}
	for who, speed := range map[int]float64{ours: 1300, alone: 100, redisson: 10} {
		s := sample{perSecond: speed, p99: 1 / speed, cpu: 1 / speed, allocs: 0.5}
		r.tables[0].rows[who], r.tables[1].rows[who] = []sample{s}, []sample{s}
	}
	r.tables[0].rows[floor] = nil
	want := map[string]bool{
		"acquires per second, 512 callers: this library by Redisson":              true, // 130, 120 wanted
		"acquires per second, 4,096 callers: this library by one call per caller": false,
		"p99, 512 callers: this library by one call per caller":                   true,
		"CPU of Redis per acquire, 512 callers: this library by Redisson":         true,
	}
	for _, target := range r.targets() {
		if met, ok := want[target.What]; ok && met != target.Met {
			t.Errorf("%s: %s, met %v", target.What, target.Got, target.Met)
		}
		delete(want, target.What)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	r.tables[0].rows[redisson] = nil
	if first := r.targets()[0]; first.Met || first.Got != "not measured" {
		t.Errorf("without Redisson: %+v", first)
	}
}

// Each side must have its share; the scenario with the least used permits
// stands for all.
func TestBesideTargets(t *testing.T) {
	of := func(golang, java float64) shares.Several {
		return shares.Several{{
			Go:   shares.Share{Granted: golang, Got: golang / 100, Due: 0.5},
			Java: shares.Share{Granted: java, Got: java / 100, Due: 0.5}, Possible: 100,
		}}
	}
	sc := shares.Scenarios[0]
	r := &besideResult{
		scenarios: []besideScenario{{sc, of(60, 40)}, {sc, of(90, 10)}, {sc, of(10, 84)}},
		among:     shares.Fairnesses{{Granted: []float64{1, 1, 1, 1}}},
	}
	want := []string{"0.8 true", "0.2 false", "0.2 false", "0.94 false", "1 true"}
	for i, target := range r.targets() {
		if got := fmt.Sprint(target.Got, " ", target.Met); got != want[i] {
			t.Errorf("%s: %s, want %s", target.What, got, want[i])
		}
	}
}
