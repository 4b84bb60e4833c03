package rratelimiter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A line is a client that reaches its server through a proxy.
type line struct {
	*bench
	proxy *redistest.Proxy
	l     *limiter
}

func newLine(t *testing.T, rate int64, interval time.Duration, mods ...func(*redis.Options)) *line {
	t.Helper()
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr)
	opts := &redis.Options{Addr: p.Addr, ReadTimeout: time.Second}
	for _, mod := range mods {
		mod(opts)
	}
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	b := newBench(t, rdb, s.Admin())
	l := b.limiter(overall, rate, interval)
	l.takes(1) // the scripts are known to the server from here on
	l.gives(1)
	return &line{b, p, l}
}

func isScript(args []string) bool { return strings.EqualFold(args[0], "evalsha") }

// scriptsRun is how many scripts the server has run by their hash.
func (n *line) scriptsRun() (calls int64) {
	n.Helper()
	stats, err := n.look.Info(context.Background(), "commandstats").Result()
	n.want(err)
	for stat := range strings.FieldsSeq(stats) {
		if _, err := fmt.Sscanf(stat, "cmdstat_evalsha:calls=%d,", &calls); err == nil {
			return calls
		}
	}
	return 0
}

// B4: a reply that is lost makes the request be sent again; the permits are
// taken once and the caller gets the first answer.
func TestAcquireIsChargedOnce(t *testing.T) {
	for _, permits := range []int64{1, 4, 10, 1 << 33} { // 10 and more are the last ones
		n := newLine(t, max(10, permits), time.Hour)
		for lost := 1; lost <= 3; lost++ {
			n.want(n.l.SetRate(t.Context(), overall, max(10, permits), time.Hour))
			n.proxy.SwallowReply(lost)
			n.l.takes(permits)
			n.l.has(max(10, permits) - permits)
			n.l.keeps(max(10, permits), n.l.value(), n.l.permits())
		}
		if got := n.proxy.Swallowed(); got != 6 {
			t.Fatalf("%d replies were lost, want 6", got)
		}
	}
}

func TestARefusalThatIsLostIsARefusal(t *testing.T) {
	n := newLine(t, 5, time.Hour)
	n.l.takes(5)
	n.proxy.SwallowReply(2)
	n.l.refused(1, time.Hour)
	n.l.keeps(5, n.l.value(), n.l.permits())
}

// A first copy that arrives after the second one is not charged, either.
func TestALateFirstCopyIsNotCharged(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	release := n.proxy.HoldNext(1, isScript)
	done := make(chan error, 1)
	go func() {
		ok, err := n.l.TryAcquire(context.Background(), 10, 0)
		if !ok {
			err = errors.Join(err, errors.New("refused"))
		}
		done <- err
	}()
	until(t, func() bool { return n.proxy.Held() == 1 })
	n.proxy.Cut()
	n.want(<-done)
	before := n.scriptsRun()
	release()
	until(t, func() bool { return n.scriptsRun() > before })
	n.l.keeps(10, n.l.value(), n.l.permits())
	n.l.has(0)
}

// B4 for Release: given back once.
func TestReleaseIsDoneOnce(t *testing.T) {
	n := newLine(t, 20, time.Hour)
	n.l.takes(5)
	n.l.takes(5)
	n.proxy.SwallowReply(3)
	n.l.gives(4)
	n.l.has(14)
	n.proxy.SwallowReply(1)
	n.l.gives(6) // all that is outstanding
	n.l.has(20)
	n.l.keeps(20, n.l.value(), n.l.permits())
	if got := n.proxy.Swallowed(); got != 4 {
		t.Fatalf("%d replies were lost, want 4", got)
	}
}

// A release that is sent again finds that it was done, by its number, even when
// the limiter was empty and others have taken permits since.
func TestAReleaseInTwoCopiesIsDoneOnce(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	n.l.takes(4)
	release := n.proxy.HoldNext(1, isScript)
	done := make(chan error, 1)
	go func() { done <- n.l.Release(context.Background(), 4) }()
	until(t, func() bool { return n.proxy.Held() == 1 })
	n.proxy.Cut()
	n.want(<-done)
	n.l.takes(7)
	before := n.scriptsRun()
	release() // the first copy, late
	until(t, func() bool { return n.scriptsRun() > before })
	n.l.has(3)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// What was taken has come back by itself when a release arrives an interval
// late, and what is out then is somebody else's.
func TestAReleaseThatIsAnIntervalLateGivesNothingBack(t *testing.T) {
	const interval = 50 * time.Millisecond
	n := newLine(t, 10, interval)
	n.l.takes(4)
	_ = n.proxy.HoldNext(1, isScript) // the first copy never arrives
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- n.l.Release(context.Background(), 4) }()
	until(t, func() bool { return n.proxy.Held() == 1 && time.Since(start) > interval })
	n.proxy.Cut()
	n.want(<-done)
	n.l.has(6)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// The fields by which requests are known do not pile up: one for each Client, and
// those of Clients that have gone are swept out.
func TestFieldsDoNotPileUp(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	for range 10 { // with a RateLimiter for each request
		n.l.takes(1)
		n.l.by(n.client).takes(1)
		n.l.by(n.client).gives(2)
	}
	if fields := n.l.fields(); len(fields) != 1 {
		t.Fatalf("%q after 10 releases by one Client, want one session", fields)
	}
	for range 100 { // clients that release once and go
		n.takesAndGives()
	}
	n.now += 61_000
	n.takesAndGives()
	if fields := n.l.fields(); len(fields) != 1 {
		t.Fatalf("%d fields a minute after 100 clients have gone, want that of the last one", len(fields))
	}
}

func (n *line) takesAndGives() {
	n.Helper()
	l := &limiter{n.newClient().RateLimiter(n.l.Name()), n.bench}
	l.takes(1)
	l.gives(1)
}

// When Redis is not reached within the attempts, the caller gets the error, and
// what may have been taken is taken back.
func TestAnAcquireWithoutAnAnswerIsWithdrawn(t *testing.T) {
	n := newLine(t, 10, time.Hour, func(o *redis.Options) { o.MaxRetries = 1 })
	n.proxy.SwallowReply(2)
	ok, err := n.l.TryAcquire(t.Context(), 10, 0)
	if ok || err == nil {
		t.Fatalf("%v, %v; want an error of the network", ok, err)
	}
	until(t, func() bool { return n.look.ZCard(context.Background(), n.l.permits()).Val() == 0 })
	n.l.has(10)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// The end of ctx while the reply is under way: nothing is kept.
func TestACallerWhoLeavesKeepsNothing(t *testing.T) {
	n := newLine(t, 10, time.Hour, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	n.proxy.HoldNext(1, isScript) // this request never reaches the server
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ok, err := n.l.TryAcquire(ctx, 10, time.Hour)
	if ok || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, %v; want DeadlineExceeded", ok, err)
	}
	n.l.has(10)
}

// The end of ctx when permits may have been taken: they are taken back.
func TestACallerWhoLeavesGivesBack(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	n.proxy.SwallowReply(1)
	n.rdb.AddHook(&cancelOnRetry{cancel: cancel})
	ok, err := n.l.TryAcquire(ctx, 10, time.Hour)
	if ok || !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, %v; want Canceled", ok, err)
	}
	until(t, func() bool { return n.look.ZCard(context.Background(), n.l.permits()).Val() == 0 })
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// cancelOnRetry ends a context when a command has failed.
type cancelOnRetry struct{ cancel context.CancelFunc }

func (h *cancelOnRetry) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *cancelOnRetry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h *cancelOnRetry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err != nil {
			h.cancel()
		}
		return err
	}
}

// SetRate clears what was taken, so it is not sent twice: an error says that we
// do not know.
func TestSetRateIsNotSentAgain(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	n.want(n.l.SetRate(t.Context(), overall, 10, time.Hour))
	n.proxy.SwallowReply(1)
	if err := n.l.SetRate(t.Context(), overall, 5, time.Hour); err == nil {
		t.Fatal("no error though the reply was lost")
	}
	if got := n.proxy.Swallowed(); got != 1 {
		t.Fatalf("%d replies swallowed", got)
	}
}

// An acquire survives a restart of Redis between two calls, and the scripts
// with it: a rejected NOSCRIPT is healed without the caller noticing.
func TestScriptsAreSentAgainWhenTheServerHasForgottenThem(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	n.want(n.look.ScriptFlush(t.Context()).Err())
	n.l.takes(2)
	n.l.has(8)
	n.proxy.Cut()
	n.l.takes(2)
	n.want(n.look.ScriptFlush(t.Context()).Err())
	n.proxy.SwallowReply(2) // NOSCRIPT, then the EVAL that took the permits
	n.l.takes(6)
	n.l.keeps(10, n.l.value(), n.l.permits())
}

// One acquire is one EVALSHA of three keys and one reply.
func TestOneAcquireIsOneRoundTrip(t *testing.T) {
	n := newLine(t, 10, time.Hour)
	_, _, requests, replies := n.proxy.Stats()
	var names []string
	n.proxy.SwallowReplyTo(1, func(args []string) bool { names = append(names, args[0], args[2]); return false })
	n.l.takes(2)
	n.l.takes(8)
	if ok, err := n.l.TryAcquire(t.Context(), 1, 0); ok || err != nil {
		t.Fatal(ok, err)
	}
	_, _, requests2, replies2 := n.proxy.Stats()
	if requests2-requests != 3 || replies2-replies != 3 {
		t.Fatalf("3 acquires were %d requests and %d replies", requests2-requests, replies2-replies)
	}
	for i := 0; i < len(names); i += 2 {
		if !strings.EqualFold(names[i], "evalsha") || names[i+1] != "3" {
			t.Fatalf("sent %q", names)
		}
	}
}

// until waits for something to become true.
func until(t *testing.T, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("did not come true within 10 s")
		}
	}
}

// Many at once, over a line that loses replies all the time: together they
// take the rate, not more and not less.
func TestManyOverABadLine(t *testing.T) {
	const rate, callers = 200, 20
	n := newLine(t, rate, time.Hour, func(o *redis.Options) { o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 20, 1, time.Millisecond })
	sent := 0
	n.proxy.SwallowReplyTo(1<<30, func([]string) bool { sent++; return sent%5 == 0 })
	granted := make(chan int, callers)
	for range callers {
		go func() {
			count := 0
			for {
				ok, err := n.l.TryAcquire(context.Background(), 1, 0)
				if err != nil {
					t.Error(err)
				}
				if !ok {
					granted <- count
					return
				}
				count++
			}
		}()
	}
	sum := 0
	for range callers {
		sum += <-granted
	}
	if sum != rate || n.proxy.Swallowed() == 0 {
		t.Fatalf("%d granted of %d, with %d replies lost", sum, rate, n.proxy.Swallowed())
	}
	n.l.keeps(rate, n.l.value(), n.l.permits())
}

// A postman keeps a copy of each request that is sent, and delivers none of those
// that it is told to lose: they are on their way, and may come late.
type postman struct {
	n      *line
	copies [][]any
	loses  int
}

func (n *line) postman() *postman {
	p := &postman{n: n}
	n.rdb.AddHook(p)
	return p
}

func (p *postman) DialHook(next redis.DialHook) redis.DialHook { return next }
func (p *postman) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (p *postman) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		p.copies = append(p.copies, slices.Clone(cmd.Args()))
		if p.loses > 0 {
			p.loses--
			return io.EOF
		}
		return next(ctx, cmd)
	}
}

// Where a request has its session, its number, and the type.
const (
	atHash, atSession, atNumber = 3, 7, 8
)

// A desk is one limiter of which a request comes late.
type desk struct {
	*postman
	l, other *limiter // the Client whose request it is, and another one
	late     []any    // its first copy
}

// asks has a request lose its first copies, and answers what its caller is told.
func (d *desk) asks(copies int, ask func(l *limiter) error) error {
	d.copies, d.loses = nil, copies
	err := ask(d.l)
	d.late = d.copies[0]
	return err
}

// number is that of the request.
func (d *desk) number() int64 {
	n, err := strconv.ParseInt(d.late[atNumber].(string), 10, 64)
	d.n.want(err)
	return n
}

// state is all that Redis has of a limiter, but the sessions of others: its
// session with the number by that of the late copy, and times by the clock;
// records and value.
func (d *desk) state(name string) string {
	ctx, start := context.Background(), d.n.now
	session := "none"
	if text := d.n.look.HGet(ctx, name, d.late[atSession].(string)).Val(); text != "" {
		var at, number, amount, where int64
		if n, err := fmt.Sscanf(text, "%d %d %d %d", &number, &at, &amount, &where); n != 4 || err != nil || strings.Count(text, " ") != 3 {
			d.n.Fatalf("session %q", text)
		}
		session = fmt.Sprintf("%+d: %d at %+d", number-d.number(), amount, where-start)
		if where == 0 { // no record is of that time
			session = fmt.Sprintf("%+d: %d", number-d.number(), amount)
		}
	}
	var records []int64
	for _, z := range d.n.look.ZRangeWithScores(ctx, "{"+name+"}:permits", 0, -1).Val() {
		n, err := rratelimiter.RecordPermits(z.Member.(string))
		d.n.want(err)
		records = append(records, n)
	}
	slices.Sort(records) // those of one ms are in no order
	return fmt.Sprintf("%s; %v; %s", session, records, d.n.look.Get(ctx, "{"+name+"}:value").Val())
}

// What the first copy of a request meets that comes when nobody waits for it any
// more, for its second copy was answered, or its caller was told of an error. It
// does nothing where anything that the session was told of came after it.
//
// What is made anew knows nothing of what came before it: there, and a minute after
// the last request of its Client, a late copy is a request like any other.
func TestWhatALateCopyMeets(t *testing.T) {
	const nothing = "" // nothing has changed, to the byte
	again, never := func(d *desk, ask func(*limiter) error) error { return d.asks(1, ask) }, func(d *desk, ask func(*limiter) error) error {
		if err := d.asks(1, ask); err == nil {
			d.n.Error("it was to be given up")
		}
		return nil
	}
	type sent func(d *desk, ask func(*limiter) error) error
	acquire := func(l *limiter) error { return second(l.TryAcquire(context.Background(), 4, 0)) }
	release := func(l *limiter) error { return l.Release(context.Background(), 4) }
	for _, tc := range []struct {
		name   string
		sent   sent
		before func(d *desk)
		after  func(d *desk)
		met    string // by an acquire: session, records and value
		late   string // after it
		rmet   string // by a release of 4 of 5
		rlate  string
	}{
		{"its second copy was granted", again, nil, nil,
			"+0: 4 at +0; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
		{"its second copy was refused", again, func(d *desk) { d.other.takes(10 - d.out()) }, func(d *desk) { d.other.gives(10) },
			"+0: 0 at +0; []; 10", nothing, "+0: -4; []; 10", nothing},
		{"a later request was granted", again, nil, func(d *desk) { d.l.takes(2) },
			"+1: 2 at +0; [2 4]; 4", nothing, "+1: 2 at +0; [1 2]; 7", nothing},
		{"a later request was refused", again, nil, func(d *desk) { d.l.refused(10, time.Hour) },
			"+0: 4 at +0; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
		{"a later request gave back", again, nil, func(d *desk) { d.l.gives(1) },
			"+1: -1; [3]; 7", nothing, "+1: -1; []; 10", nothing},
		{"given up, a later request was granted", never, nil, func(d *desk) { d.l.takes(2) },
			"+1: 2 at +0; [2]; 8", nothing, "+1: 2 at +0; [2 5]; 3", nothing},
		{"given up, a later request was refused", never, nil, func(d *desk) {
			others := 10 - d.out()
			d.other.takes(others)
			d.l.refused(1, time.Hour)
			d.other.gives(others)
		}, "+1: 0 at +0; []; 10", nothing, "-1: 5 at +0; [5]; 5", "+0: -4; [1]; 9"}, // who gave it back knows of no number
		{"given up, a later request could not be", never, nil, func(d *desk) {
			if _, err := d.l.TryAcquire(context.Background(), 11, 0); !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
				d.n.Error(err)
			}
		}, "+1: 0 at +0; []; 10", nothing, "-1: 5 at +0; [5]; 5", "+0: -4; [1]; 9"},
		{"given up, a later request gave back", never, nil, func(d *desk) { d.l.gives(1) },
			"+1: 0; []; 10", nothing, "+1: -1; [4]; 6", nothing},
		{"given up and withdrawn", never, nil, func(d *desk) { d.withdrawn() },
			"+1: 0; []; 10", nothing, "-1: 5 at +0; [5]; 5", "+0: -4; [1]; 9"},
		{"a rate was set", again, nil, func(d *desk) { d.n.want(d.other.SetRate(context.Background(), overall, 10, time.Hour)) },
			"+0: 4; []; ", "+0: 4; []; 10", "+0: -4; []; ", nothing},
		{"a rate was set, and keeps state", again, nil, func(d *desk) {
			d.n.want(d.other.SetRate(context.Background(), overall, 20, time.Hour, rratelimiter.WithKeepState()))
		}, "+0: 4 at +0; [4]; 16", nothing, "+0: -4; [1]; 19", nothing},
		{"deleted", again, nil, func(d *desk) { d.deleted() }, "none; []; ", nothing, "none; []; ", nothing},
		{"deleted and made anew", again, nil, func(d *desk) {
			d.deleted()
			_, err := d.other.TrySetRate(context.Background(), overall, 10, time.Hour)
			d.n.want(err)
		}, "none; []; ", "+0: 4 at +0; [4]; 6", "none; []; ", "+0: 0; []; 10"},
		{"renamed", again, nil, func(d *desk) { d.n.want(d.l.Rename(context.Background(), d.l.Name()+"new")) },
			"+0: 4 at +0; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
		{"used by others for an hour, but a few", again, nil, func(d *desk) { d.passes(59*time.Minute, 7) },
			"+0: 4 at -3540000; [4]; 6", nothing, "+0: -4; [1]; 9", nothing},
		{"swept out", again, nil, func(d *desk) { d.passes(61*time.Second, 20) },
			"none; [4]; 6", "+0: 4 at -61000; [4 4]; 2", "none; [1]; 9", "+0: -1; []; 10"},
	} {
		for what, ask := range map[string]func(*limiter) error{"an acquire": acquire, "a release": release} {
			t.Run(tc.name+", "+what, func(t *testing.T) {
				n := newLine(t, 10, time.Hour, func(o *redis.Options) {
					if o.MaxRetries = 1; tc.met[0] == '+' && strings.HasPrefix(tc.name, "given up") {
						o.MaxRetries = -1
					}
				})
				d := &desk{postman: n.postman(), l: n.l, other: n.somebodyElse()}
				met, after := tc.met, tc.late
				if what == "a release" {
					met, after = tc.rmet, tc.rlate
					n.l.takes(5)
				}
				if tc.before != nil {
					tc.before(d)
				}
				n.want(tc.sent(d, ask))
				if tc.after != nil {
					tc.after(d)
				}
				if got := d.state(d.l.Name()); got != met {
					t.Errorf("it meets %q, want %q", got, met)
				}
				name, before := d.late[atHash].(string), d.dumps()
				err := n.look.Do(context.Background(), d.late...).Err()
				if err != nil && !redis.HasErrorPrefix(err, "NOTINIT ") {
					t.Error(err)
				}
				switch now := d.dumps(); {
				case after == nothing && now != before:
					t.Errorf("it has changed %q to %q", before, now)
				case after != nothing && d.state(name) != after:
					t.Errorf("it leaves %q, want %q", d.state(name), after)
				}
			})
		}
	}
}

// out is what others than the other Client have.
func (d *desk) out() int64 { return sum(d.l.records(d.l.permits())) }

// deleted removes the limiter.
func (d *desk) deleted() {
	_, err := d.other.Delete(context.Background())
	d.n.want(err)
}

// withdrawn waits until what may have been granted is taken back in the background.
func (d *desk) withdrawn() {
	if d.late[atNumber+2] == "" { // a release is not
		return
	}
	until(d.n.T, func() bool { return strings.HasPrefix(d.state(d.l.Name()), "+1") })
}

// passes lets a time go by in which other Clients use the limiter.
func (d *desk) passes(by time.Duration, clients int) {
	d.n.now += by.Milliseconds()
	for range clients {
		c := d.n.somebodyElse()
		c.takes(1)
		c.gives(1)
	}
}

// dumps is what Redis has of the limiter, by its old and new name, to the byte.
func (d *desk) dumps() string {
	var all []any
	for _, name := range []string{d.late[atHash].(string), d.l.Name()} {
		all = append(all, d.n.look.HGetAll(context.Background(), name).Val(), d.n.look.Get(context.Background(), "{"+name+"}:value").Val(),
			d.n.look.ZRangeWithScores(context.Background(), "{"+name+"}:permits", 0, -1).Val())
	}
	return fmt.Sprintf("%q", all)
}
