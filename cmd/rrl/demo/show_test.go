package demo

import (
	"context"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"":                     `""`,
		"plain text":           `"plain text"`,
		`a "word" and \`:       `"a \"word\" and \\"`,
		"it's 100%":            `"it's 100%"`,
		"\n\r\t\a\b":           `"\n\r\t\a\b"`,
		"\x00\x01\v\f\x1b\x7f": `"\x00\x01\x0b\x0c\x1b\x7f"`,
		" ~":                   `" ~"`,
		"\x80\xff":             `"\x80\xff"`,
		"é":                    `"\xc3\xa9"`, // strconv.Quote would keep it
	} {
		if got := quote(s); got != want {
			t.Errorf("quote(%q) = %s, want %s", s, got, want)
		}
	}
}

func TestReply(t *testing.T) {
	for _, c := range []struct {
		answer any
		want   string
	}{
		{nil, "(nil)\n"},
		{"4", "\"4\"\n"},
		{int64(-4), "(integer) -4\n"},
		{true, "true\n"},
		{[]any{}, "(empty array)\n"},
		{[]any{"a", nil}, "1) \"a\"\n2) (nil)\n"},
		{make([]any, 10), strings.Repeat(" %) (nil)\n", 9) + "10) (nil)\n"},
	} {
		want := c.want
		for n := '1'; n <= '9'; n++ {
			want = strings.Replace(want, "%", string(n), 1)
		}
		if got := reply(c.answer); got != want {
			t.Errorf("reply(%v) is\n%swant\n%s", c.answer, got, want)
		}
	}
}

// What follows is checked against the real redis-cli.
type cli struct {
	*testing.T
	path string
	s    *redistest.Server
	rdb  *redis.Client
}

func newCLI(t *testing.T) cli {
	path := redistest.Require(t, "redis-cli")
	s := redistest.Start(t)
	return cli{t, path, s, s.Client(t, func(o *redis.Options) { o.Protocol = 2 })}
}

// shows returns what redis-cli prints on a terminal.
func (c cli) shows(args ...string) string {
	c.Helper()
	out := redistest.Must(exec.CommandContext(c.Context(), c.path,
		append([]string{"-u", c.s.URL(), "--no-raw"}, args...)...).Output())(c)
	return string(out)
}

func (c cli) compare(args ...string) {
	c.Helper()
	argv := make([]any, len(args))
	for i := range args {
		argv[i] = args[i]
	}
	answer, err := c.rdb.Do(c.Context(), argv...).Result()
	if err != nil && err != redis.Nil {
		c.Fatal(err)
	}
	if got, want := reply(answer), c.shows(args...); got != want {
		c.Errorf("%s: we show\n%sredis-cli\n%s", args, got, want)
	}
}

func TestReplyAsRedisCLI(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	pipe := c.rdb.TxPipeline()
	pipe.Set(t.Context(), "bytes", all, 0)
	pipe.Set(t.Context(), "utf8", `é, "quoted" \`, 0)
	for i := range 101 {
		member := make([]byte, i%21)
		for j := range member {
			member[j] = byte(rand.Int())
		}
		pipe.ZAdd(t.Context(), "records", redis.Z{Score: 1.7e12 + float64(i),
			Member: append(member, byte(i))})
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.compare("GET", "bytes")
	c.compare("GET", "utf8")
	c.compare("GET", "nothing")
	c.compare("STRLEN", "bytes")
	c.compare("ZRANGE", "nothing", "0", "-1")
	c.compare("ZRANGE", "records", "0", "8")
	c.compare("ZRANGE", "records", "0", "9")
	c.compare("ZRANGE", "records", "0", "-1", "WITHSCORES")
}

// The keys of a limiter are shown as redis-cli shows them, but for the remarks.
func TestKeysAsRedisCLI(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	shown := c.keys()
	var commands int
	_, shown, _ = strings.Cut(shown, "\n> ")
	for part := range strings.SplitSeq(shown, "\n> ") {
		command, got, _ := strings.Cut(strings.TrimSuffix(part, "\n")+"\n", "\n")
		commands++
		if want := c.shows(strings.Fields(command)...); got != want {
			t.Errorf("> %s\nshows\n%sredis-cli\n%s", command, got, want)
		}
	}
	if commands != 3 {
		t.Errorf("%d commands, want 3:\n%s", commands, shown)
	}
}

// keys makes a limiter and returns what showKeys says of it, without remarks.
func (c cli) keys() string {
	client := rratelimiter.New(c.rdb)
	c.Cleanup(func() { _ = client.Close() })
	limiter := client.RateLimiter("cli")
	var out strings.Builder
	log, err := newTimeline(c.Context(), c.rdb, limiter, newPage(&out))
	for _, do := range []func(context.Context) error{
		func(context.Context) error { return err },
		func(ctx context.Context) error { return create(ctx, limiter) },
		func(ctx context.Context) error { return limiter.Acquire(ctx, 3) },
		func(ctx context.Context) error { return limiter.Acquire(ctx, 2) },
		func(ctx context.Context) error { return limiter.Release(ctx, 1) },
		func(ctx context.Context) error { return showKeys(ctx, &server{rdb: c.rdb, name: "cli"}, log) },
	} {
		redistest.NoError(c, do(c.Context()))
	}
	return withoutRemarks(out.String())
}

func withoutRemarks(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "  <- ")
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}
