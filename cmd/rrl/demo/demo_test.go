package demo

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // as main does
	redistest.VerifyNoLeaks(m)
}

// The demo, in the time of a bubble, with nothing of it replaced.
func TestDemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var out strings.Builder
		err := Run(t.Context(), nil, "", &out)
		stdout := out.String()
		if took := time.Since(start); took < 4*time.Second || took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if err != nil {
			t.Error(err)
		}
		checkDemo(t, stdout, "demo")
		checkStory(t, stdout)
		checkLooks(t, stdout)
	})
}

func TestDemoOnRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := s.Client(t, func(o *redis.Options) { o.Protocol = 2 })
	var out strings.Builder
	redistest.NoError(t, Run(t.Context(), rdb, "here", &out))
	checkDemo(t, out.String(), `rrl-demo-\w{8}`)
	info, err := s.Admin().Info(t.Context(), "keyspace").Result()
	if err != nil || !strings.Contains(info, "Keyspace") || strings.Contains(info, "keys=") {
		t.Errorf("it left behind: %s, %v", info, err)
	}
}

// checkDemo checks that a demo with a limiter of this name has all its pieces.
func checkDemo(t *testing.T, output, name string) {
	t.Helper()
	rest := output
	for _, want := range []string{
		`^5 permits per second, shared by 4 callers, on `,
		`\n *0\.\d{3}  web     TryAcquire\(1, 500ms\)   *yes .* 4\n`,
		`\n *0\.\d{3}  search  Allow\(1\)  .* no, retry after [4567]\d\d ms  *\.{5} 0\n`,
		`\n *0\.\d{3}  report  Release\(2\)  *given back  `,
		`\n *1\.\d{3}  report  TryAcquire\(3, 2s\)  *yes, after \d{3} ms  `,
		`\nAt 4\.\d{3} Redis holds`,
		`\n> HGETALL ` + name + `\n`, `"rate"\n *\d+\) "5" +<- permits\n`,
		`\n> GET \{` + name + `\}:value\n"\d"  `,
		`\n> ZRANGE \{` + name + `\}:permits 0 -1 WITHSCORES\n` +
			`1\) "\\x10.*\\x0[123]\\x00\\x00\\x00"\n2\) "\d{12,13}"  `,
		` +<- 1 permit, taken at 4\.\d{3}, back at 5\.\d{3}\n`,
		`\nGranted: web \d, mail \d, report 6, search \d; never more than [45] permits in any 1s\.\n$`,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %s in\n%s\nof\n%s", want, rest, output)
		}
		rest = rest[at[1]-1:] // the newline may begin what is next
	}
}

// checkStory checks what only a machine without delays tells: the answers of
// the first second, one of each kind.
func checkStory(t *testing.T, output string) {
	t.Helper()
	const story = `
 0.000  web     TryAcquire(1, 500ms)  yes                      ####. 4
 0.100  mail    TryAcquire(1, 200ms)  yes                      ###.. 3
 0.200  report  TryAcquire(3, 2s)     yes                      ..... 0
 0.300  search  Allow(1)              no, retry after 700 ms   ..... 0
 0.400  report  Release(2)            given back               ##... 2
 0.500  search  Allow(1)              yes                      #.... 1
 0.600  web     TryAcquire(1, 500ms)  yes                      ..... 0
 0.900  mail    TryAcquire(1, 200ms)  no, after 200 ms         ..... 0
 1.000  web     TryAcquire(1, 500ms)  yes, after 200 ms        ..... 0
`
	if !strings.Contains(output, story) {
		t.Errorf("the first second is not\n%s in\n%s", story, output)
	}
	if !strings.Contains(output, "web 7, mail 4, report 6, search 3; never more than 5 permits in any 1s.") {
		t.Errorf("the shares are others:\n%s", output)
	}
}

// checkLooks checks that lines fit a terminal and nothing is meant for one
// only. A record may be longer: redis-cli shows it so.
func checkLooks(t *testing.T, output string) {
	t.Helper()
	for line := range strings.Lines(output) {
		if n := len(line) - len("\n"); n > 80 && !strings.Contains(line, `\x00`) {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.Contains(line, "\x1b") || strings.HasSuffix(line, " \n") {
			t.Errorf("codes of a terminal, or blanks at the end: %q", line)
		}
	}
}

// A demo that is interrupted leaves nothing behind.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		s := &server{rdb: redistest.MiniClient(t, m), name: "x"}
		ctx, cancel := context.WithTimeout(t.Context(), 850*time.Millisecond)
		defer cancel()
		var out strings.Builder
		if err := demoOn(ctx, s, &out); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		if keys := m.Keys(); len(keys) != 0 {
			t.Errorf("it left behind: %v", keys)
		}
		if strings.Contains(out.String(), "Redis holds") {
			t.Errorf("it went on:\n%s", out.String())
		}
	})
}

// A demo whose process is killed leaves nothing for long.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		client := rratelimiter.New(redistest.MiniClient(t, m))
		defer client.Close()
		limiter := client.RateLimiter("x")
		redistest.NoError(t, errors.Join(create(t.Context(), limiter), limiter.Acquire(t.Context(), 2)))
		time.Sleep(59 * time.Second)
		if keys := m.Keys(); len(keys) != 3 {
			t.Errorf("after 59 s there are %v", keys)
		}
		time.Sleep(2 * time.Second)
		if keys := m.Keys(); len(keys) != 0 {
			t.Errorf("it left behind: %v", keys)
		}
	})
}

// A limiter that is there already is neither used nor deleted.
func TestNameTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		s := &server{rdb: redistest.MiniClient(t, m), name: "x"}
		client := rratelimiter.New(s.rdb)
		defer client.Close()
		redistest.NoError(t, client.RateLimiter("x").SetRate(t.Context(), rratelimiter.Overall, 1, time.Hour))
		if err := demoOn(t.Context(), s, t.Output()); err == nil ||
			!strings.Contains(err.Error(), `a limiter called "x" already`) {
			t.Errorf("the error is %v", err)
		}
		if got := m.HGet("x", "rate"); got != "1" {
			t.Errorf("its rate is %q now", got)
		}
	})
}

// A server that dies is an error, which says what was being done.
func TestServerDies(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var out killer
	out.at, out.kill = "report", s.Stop
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2})
	defer rdb.Close()
	if err := Run(t.Context(), rdb, "here", &out); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("the error is %v", err)
	}
	if s := out.String(); strings.Contains(s, "Redis holds") {
		t.Errorf("it went on:\n%s", s)
	}
}

// A killer is an output that does something at a word.
type killer struct {
	strings.Builder
	at   string
	kill func()
}

func (k *killer) Write(p []byte) (int, error) {
	if strings.Contains(string(p), k.at) {
		k.kill()
	}
	return k.Builder.Write(p)
}

// What is not a limiter's is said to be that, not guessed at.
func TestRemarksOnOddKeys(t *testing.T) {
	log := &timeline{epoch: time.UnixMilli(1000)}
	for _, c := range []struct{ got, want string }{
		{log.remarkOnRecord("abc", "1000"), "3 bytes"},
		{log.remarkOnRecord("\x02\x00\x00\x00", "1.5"), `parsing "1.5"`},
		{log.remarkOnRecord("\x02\x00\x00\x00", "1500"), "2 permits, taken at 0.500, back at 1.500"},
		{remarkOnField("type", "1"), ""},
		{remarkOnField("else", "1"), ""},
	} {
		if !strings.Contains(c.got, c.want) || c.want == "" && c.got != "" {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// A limiter that is deleted while the demo looks ends it.
func TestLimiterVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := redistest.Mini(t)
		s := &server{rdb: redistest.MiniClient(t, m), name: "x"}
		time.AfterFunc(950*time.Millisecond, func() { m.Del("x") })
		err := demoOn(t.Context(), s, t.Output())
		if !errors.Is(err, rratelimiter.ErrNotInitialized) || !strings.Contains(err.Error(), "TryAcquire(") {
			t.Errorf("the error is %v", err)
		}
	})
}
