package redisx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
	errors []string     // the errors that the observer in the context got
	dials  atomic.Int32 // the one with the number 1 fails

	mu   sync.Mutex // guards sent
	sent [][]string
}

func newPath(t *testing.T, mods ...func(*redis.Options)) *path {
	t.Helper()
	p := &path{T: t, server: redistest.Start(t)}
	p.dials.Store(1)
	p.proxy = redistest.StartProxy(t, p.server.Addr)
	p.runner = NewRunner(p.server.Client(t, append([]func(*redis.Options){func(o *redis.Options) {
		o.Addr = p.proxy.Addr
		o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff = 2, time.Millisecond, 2*time.Millisecond
		o.DialerRetries = 1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if p.dials.Add(1) == 1 {
				return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		}
	}}, mods...)...))
	stop := p.proxy.Observe(func(args []string) {
		if redistest.IsScript(args) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.sent = append(p.sent, args)
		}
	})
	t.Cleanup(stop)
	return p
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
	observe := func(err error) {
		if dialFailed(err) {
			err = errors.New("refused")
		}
		p.errors = append(p.errors, err.Error())
	}
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

// refusesOnce makes the first reply of a call an error.
func refusesOnce(text string) func(*Call) { return refuses(1, text) }

// refuses makes the first replies of a call errors.
func refuses(times int, text string) func(*Call) {
	return func(c *Call) {
		c.Script = script(fmt.Sprintf("if tonumber(redis.call('get', KEYS[1]) or 0) < %d then "+
			"redis.call('incr', KEYS[1]) return redis.error_reply('%s') end %s", times, text, counting), true)
	}
}

// onlyOnce makes the script of a call one that is not repeatable.
func onlyOnce(c *Call) { c.Script = script(counting, false) }

// before makes a call be sent again until so long from now.
func before(d time.Duration) func(*Call) { return func(c *Call) { c.Before = time.Now().Add(d) } }

func loses(replies int) func(*path) { return func(p *path) { p.proxy.SwallowReply(replies) } }

func down(p *path) { p.proxy.Down() }

// A fault is one of the network or of Redis, and what becomes of a call in it.
type fault struct {
	name  string
	call  func(*Call) // changes the call, which is repeatable
	fault func(*path)

	sent     int    // times
	ran      int64  // times
	copied   bool   // the last copy has the ms since the start of the call
	unsure   bool   // it may have been carried out without a reply
	err      string // part of the error, "" for none
	observed string // the errors that the observer got
}

// A call is sent again where that is safe: a repeatable script as often as the options of the client say,
// with the ms since its start in the place Resent, and not after Before if it may have been carried out. A
// call that reached no server was not carried out, and one whose reply was lost stays unsure.
var faults = []fault{
	{"none", nil, nil, 1, 1, false, false, "", "[]"},
	{"a lost reply", nil, loses(1), 2, 2, true, true, "", "[EOF]"},
	{"a lost reply, and no place for the ms", func(c *Call) { c.Resent = 0 }, loses(1),
		2, 2, false, true, "", "[EOF]"},
	{"replies are lost again and again", nil, loses(3), 3, 3, false, true, "EOF", "[EOF EOF]"},
	{"a lost reply of a script that is not repeatable", onlyOnce, loses(1), 1, 1, false, true, "EOF", "[]"},
	{"a lost reply after Before", before(-time.Minute), loses(1), 1, 1, false, true, "EOF", "[]"},
	{"a lost reply before Before", before(time.Minute), loses(1), 2, 2, true, true, "", "[EOF]"},
	{"an error of Redis after Before", func(c *Call) {
		refusesOnce("TRYAGAIN later")(c)
		before(-time.Minute)(c)
	}, nil, 2, 2, false, false, "", "[TRYAGAIN later]"},
	{"a slot that moves", refusesOnce("TRYAGAIN later"), nil, 2, 2, false, false, "", "[TRYAGAIN later]"},
	{"a slot that moves for longer than all attempts take", refuses(5, "TRYAGAIN x"), nil,
		6, 6, false, false, "", "[TRYAGAIN x TRYAGAIN x TRYAGAIN x TRYAGAIN x TRYAGAIN x]"},
	{"a master that is one no more", refusesOnce("READONLY x"), nil, 2, 2, false, false, "", "[READONLY x]"},
	{"a server that starts", refusesOnce("LOADING later"), nil, 2, 2, false, false, "", "[LOADING later]"},
	{"a script that is cut short", refusesOnce("ERR Script attempted to access a non local key in a x"), nil,
		2, 2, true, true, "", "[ERR Script attempted to access a non local key in a x]"},
	{"an answer", refusesOnce("NOTINIT l"), nil, 1, 1, false, false, "NOTINIT l", "[]"},
	{"no numbers", func(c *Call) { c.Script = script("return 'x'", true) }, nil,
		1, 0, false, false, ErrShape.Error(), "[]"},
	{"no server", nil, down, 0, 0, false, false, "refused", "[refused refused]"},
	{"no server for a script that is not repeatable", onlyOnce, down,
		0, 0, false, false, "refused", "[refused refused]"},
	{"a lost reply, and then no server", nil, func(p *path) {
		p.dials.Store(-1) // the dial after the one to come fails
		p.proxy.SwallowReply(1)
	}, 2, 2, true, true, "", "[EOF refused]"},
}

func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			p, call := newPath(t), counts(true)
			if f.call != nil {
				f.call(call)
			}
			p.knows(call.Script)
			if f.fault != nil {
				f.fault(p)
			}
			f.comesTo(p, call)
			p.proxy.Up()
			if _, unsure, err := p.runs(counts(false)); unsure || err != nil {
				t.Errorf("the next call: unsure %v, %v", unsure, err)
			}
		})
	}
}

// comesTo runs the call, and expects what becomes of it.
func (f fault) comesTo(p *path, call *Call) {
	p.Helper()
	reply, unsure, err := p.runs(call)
	if unsure != f.unsure || !strings.Contains(fmt.Sprint(err), cmp.Or(f.err, "<nil>")) {
		p.Errorf("unsure %v, %v; want unsure %v, %q", unsure, err, f.unsure, f.err)
	}
	if f.err == "NOTINIT l" && !Final(err) || f.err == "refused" && !dialFailed(err) {
		p.Errorf("the error is %#v", err)
	}
	ms := time.Duration(reply.At(1)) * time.Millisecond
	if copied := ms >= time.Hour && ms < time.Hour+time.Minute; copied != f.copied || !copied && ms > 0 {
		p.Errorf("the reply is %v, marked as a copy: %v, want %v", reply, copied, f.copied)
	}
	if got := fmt.Sprint(p.errors); got != f.observed {
		p.Errorf("the observer got %s, want %s", got, f.observed)
	}
	if sent := p.wasSent(f.sent); len(sent) > 0 && sent[0][len(sent[0])-1] != "a" {
		p.Errorf("the first copy is %q", sent[0])
	}
	p.count(f.ran)
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
	release := p.proxy.HoldNext(1, redistest.IsScript)
	defer release()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, unsure, err := p.runner.Run(short, call); !unsure || err == nil {
		t.Errorf("meanwhile: unsure %v, %v", unsure, err)
	}
	p.wasSent(1)
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
