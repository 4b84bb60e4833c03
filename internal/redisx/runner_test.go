package redisx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A path is a Runner, the server it reaches through a proxy, and the commands that
// the server was sent to run scripts.
type path struct {
	*testing.T
	runner Runner
	server *redistest.Server
	proxy  *redistest.Proxy
	errors []string // the errors that the observer in the context got

	mu   sync.Mutex // guards sent
	sent [][]string
}

func newPath(t *testing.T, mods ...func(*redis.Options)) *path {
	t.Helper()
	p := &path{T: t, server: redistest.Start(t)}
	p.proxy = redistest.StartProxy(t, p.server.Addr)
	p.runner = NewRunner(p.server.Client(t, append([]func(*redis.Options){func(o *redis.Options) {
		o.Addr = p.proxy.Addr
		o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 2, time.Millisecond, 2*time.Millisecond
		o.DialerRetries = 1
	}}, mods...)...))
	stop := p.proxy.Observe(func(args []string) {
		if isScript(args) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.sent = append(p.sent, args)
		}
	})
	t.Cleanup(stop)
	return p
}

func isScript(args []string) bool {
	return strings.EqualFold(args[0], "evalsha") || strings.EqualFold(args[0], "eval")
}

// knows has the server load a script.
func (p *path) knows(sc *Script) {
	p.Helper()
	if err := p.server.Admin().ScriptLoad(p.Context(), sc.Source).Err(); err != nil {
		p.Fatal(err)
	}
}

// runs runs a call, with an observer of its failures.
func (p *path) runs(call *Call) (reply Reply, unsure bool, err error) {
	observe := func(err error) { p.errors = append(p.errors, err.Error()) }
	return p.runner.Run(context.WithValue(p.Context(), FailureKey{}, observe), call)
}

// wasSent expects so many commands to have been sent, and returns them.
func (p *path) wasSent(times int) [][]string {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.sent) != times {
		p.Fatalf("sent %d times, want %d: %q", len(p.sent), times, p.sent)
	}
	return p.sent
}

// count expects the script to have been carried out so many times.
func (p *path) count(want int64) {
	p.Helper()
	n, err := p.server.Admin().Get(p.Context(), "n").Int64()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	if n != want || err != nil {
		p.Errorf("carried out %d times, %v; want %d", n, err, want)
	}
}

// counting replies how often it was carried out, and its third argument.
const counting = "return {redis.call('incr', KEYS[1]), tonumber(ARGV[3]) or -1}"

func script(source string, repeatable bool) *Script {
	return Load(fstest.MapFS{"script.lua": {Data: []byte(source)}}, "script.lua", repeatable)
}

// counts is a call of counting, first sent an hour ago.
func counts(repeatable bool) *Call {
	return &Call{Script: script(counting, repeatable), Keys: []any{"n"}, Args: []any{"a"},
		Resent: 3, Start: time.Now().Add(-time.Hour)}
}

func TestAnUnknownScriptIsSentWhole(t *testing.T) {
	p := newPath(t)
	call := counts(false)
	for n := range int64(2) {
		reply, unsure, err := p.runs(call)
		if reply.At(0) != n+1 || reply.At(1) != -1 || unsure || err != nil {
			t.Errorf("%v, unsure %v, %v; want %d, -1", reply, unsure, err, n+1)
		}
	}
	hash := fmt.Sprint(call.Script.hash)
	want := fmt.Sprint([][]string{
		{"evalsha", hash, "1", "n", "a"}, {"eval", call.Script.Source, "1", "n", "a"}, // unknown
		{"evalsha", hash, "1", "n", "a"}, // known
	})
	if got := fmt.Sprint(p.wasSent(3)); got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	if len(p.errors) > 0 {
		t.Errorf("the observer got %q", p.errors)
	}
}

// A call whose reply was lost is sent again with the ms since its start in the place
// Resent, which the first copy leaves empty.
func TestALostReplyOfARepeatableScript(t *testing.T) {
	p := newPath(t)
	call := counts(true)
	p.knows(call.Script)
	p.proxy.SwallowReply(1)
	reply, unsure, err := p.runs(call)
	if ms := time.Duration(reply.At(1)) * time.Millisecond; ms < time.Hour || ms > time.Hour+time.Minute {
		t.Errorf("sent again after %v, want an hour", ms)
	}
	if reply.At(0) != 2 || !unsure || err != nil {
		t.Errorf("%v, unsure %v, %v; want the reply of the second copy", reply, unsure, err)
	}
	sent := p.wasSent(2)
	if got := fmt.Sprintf("%q %q", sent[0][4:], sent[1][4:6]); got != `["a"] ["a" ""]` {
		t.Errorf("arguments %s", got)
	}
	if fmt.Sprint(p.errors) != "[EOF]" {
		t.Errorf("the observer got %q, want the end of the connection", p.errors)
	}
}

// A script with no place for the ms is sent again as it was.
func TestALostReplyWhereNoPlaceIsKept(t *testing.T) {
	p := newPath(t)
	call := counts(true)
	call.Resent = 0
	p.knows(call.Script)
	p.proxy.SwallowReply(1)
	if reply, unsure, err := p.runs(call); reply.At(1) != -1 || !unsure || err != nil {
		t.Errorf("%v, unsure %v, %v", reply, unsure, err)
	}
	if sent := p.wasSent(2); fmt.Sprint(sent[0]) != fmt.Sprint(sent[1]) {
		t.Errorf("sent %q", sent)
	}
}

// A call whose replies are lost is sent as often as the options of the client say, and once if it is not
// repeatable.
func TestRepliesThatAreLostAgainAndAgain(t *testing.T) {
	for repeatable, times := range map[bool]int{true: 3, false: 1} {
		p := newPath(t)
		call := counts(repeatable)
		p.knows(call.Script)
		p.proxy.SwallowReply(3)
		if _, unsure, err := p.runs(call); !unsure || !errors.Is(err, io.EOF) {
			t.Errorf("unsure %v, %v; want the end of the connection", unsure, err)
		}
		p.wasSent(times)
		p.count(int64(times))
		if len(p.errors) != times-1 {
			t.Errorf("the observer got %q, want one error for each copy", p.errors)
		}
	}
}

// Beyond Before a call that may have been carried out is not sent again. One that was
// not carried out still is.
func TestNotSentAgainAfterBefore(t *testing.T) {
	for before, times := range map[time.Duration]int{-time.Minute: 1, time.Minute: 2} {
		p := newPath(t)
		call := counts(true)
		call.Before = time.Now().Add(before)
		p.knows(call.Script)
		p.proxy.SwallowReply(1)
		_, unsure, err := p.runs(call)
		if !unsure || (err == nil) != (times == 2) {
			t.Errorf("until %v from now: unsure %v, %v", before, unsure, err)
		}
		p.wasSent(times)
	}
	p := newPath(t)
	call := refusesOnce("TRYAGAIN later")
	call.Before = time.Now().Add(-time.Minute)
	p.knows(call.Script)
	if reply, unsure, err := p.runs(call); reply.At(0) != 2 || unsure || err != nil {
		t.Errorf("after an error of Redis: %v, unsure %v, %v", reply, unsure, err)
	}
}

// refusesOnce is a call of a script whose first reply is an error.
func refusesOnce(text string) *Call {
	call := counts(true)
	call.Script = script("if not redis.call('get', KEYS[1]) then redis.call('set', KEYS[1], 1) "+
		"return redis.error_reply('"+text+"') end "+counting, true)
	return call
}

// What Redis replies tells whether a call is sent again, and whether it may have been
// carried out.
func TestErrorsOfRedis(t *testing.T) {
	for text, want := range map[string]struct{ again, unsure bool }{
		"TRYAGAIN later": {again: true},
		"LOADING later":  {again: true},
		"ERR Script attempted to access a non local key in a cluster node": {again: true, unsure: true},
		"NOTINIT l": {},
	} {
		t.Run(text, func(t *testing.T) {
			p := newPath(t)
			call := refusesOnce(text)
			p.knows(call.Script)
			reply, unsure, err := p.runs(call)
			if unsure != want.unsure {
				t.Errorf("unsure %v", unsure)
			}
			if !want.again {
				if !Final(err) || !redis.HasErrorPrefix(err, "NOTINIT") {
					t.Errorf("%v, want it as it was replied", err)
				}
				p.wasSent(1)
				return
			}
			if marked := reply.At(1) != -1; err != nil || marked != want.unsure {
				t.Errorf("%v, said to be sent before: %v, want %v", err, marked, want.unsure)
			}
			p.wasSent(2)
		})
	}
}

// A call that reached no server was not carried out, whether its script is repeatable
// or not. It is sent again.
func TestAFailedDialIsNotUnsure(t *testing.T) {
	for _, repeatable := range []bool{true, false} {
		p := newPath(t)
		p.proxy.Down()
		_, unsure, err := p.runs(counts(repeatable))
		if unsure || !dialFailed(err) {
			t.Errorf("unsure %v, %v; want a failed dial", unsure, err)
		}
		if len(p.errors) != 2 {
			t.Errorf("repeatable %v: the observer got %q, want two attempts more",
				repeatable, p.errors)
		}
		p.count(0)
		p.proxy.Up()
		reply, unsure, err := p.runs(counts(repeatable))
		if reply.At(0) != 1 || reply.At(1) != -1 || unsure || err != nil {
			t.Errorf("with the server back: %v, unsure %v, %v", reply, unsure, err)
		}
	}
}

// After a lost reply the call stays unsure, whatever becomes of its later copies.
func TestALostReplyAndThenAFailedDial(t *testing.T) {
	var dials atomic.Int32
	p := newPath(t, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 2 {
				return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	})
	call := counts(true)
	p.knows(call.Script)
	p.proxy.SwallowReply(1)
	reply, unsure, err := p.runs(call)
	if reply.At(0) != 2 || reply.At(1) < time.Hour.Milliseconds() || !unsure || err != nil {
		t.Errorf("%v, unsure %v, %v", reply, unsure, err)
	}
	if len(p.errors) != 2 || p.errors[0] != "EOF" || !strings.Contains(p.errors[1], "refused") {
		t.Errorf("the observer got %q, want a lost reply and a failed dial", p.errors)
	}
}

// A call whose context has ended is not sent at all. One whose context ends while the
// server holds it may have been carried out.
func TestTheContextOfACallEnds(t *testing.T) {
	p := newPath(t, func(o *redis.Options) { o.ContextTimeoutEnabled = true })
	call := counts(true)
	p.knows(call.Script)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, unsure, err := p.runner.Run(ended, call); unsure || !errors.Is(err, context.Canceled) {
		t.Errorf("before: unsure %v, %v", unsure, err)
	}
	p.wasSent(0)
	release := p.proxy.HoldNext(1, isScript)
	defer release()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, unsure, err := p.runner.Run(short, call); !unsure || err == nil {
		t.Errorf("meanwhile: unsure %v, %v", unsure, err)
	}
	p.wasSent(1)
}

func TestARunOfAScriptThatRepliesNoNumbers(t *testing.T) {
	p := newPath(t)
	_, unsure, err := p.runs(&Call{Script: script("return 'x'", true)})
	if unsure || !errors.Is(err, ErrShape) {
		t.Errorf("unsure %v, %v; want ErrShape", unsure, err)
	}
}

// TypeOf is asked once, and is empty where Redis does not reply.
func TestTypeOf(t *testing.T) {
	p := newPath(t)
	if err := p.server.Admin().HSet(t.Context(), "h", "f", "v").Err(); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"h": "hash", "missing": "none"} {
		if got := p.runner.TypeOf(t.Context(), key); got != want {
			t.Errorf("%s is of type %q, want %q", key, got, want)
		}
	}
	p.proxy.SwallowReplyTo(2, func(args []string) bool { return strings.EqualFold(args[0], "type") })
	if got := p.runner.TypeOf(t.Context(), "h"); got != "" || p.proxy.Swallowed() != 1 {
		t.Errorf("without a reply: %q, asked %d times", got, p.proxy.Swallowed())
	}
}
