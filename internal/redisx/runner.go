package redisx

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Runner sends scripts through one client, again where that is safe.
type Runner struct {
	Kind
	rdb redis.UniversalClient

	// Confirm is what calls with a Call.Done wait for; the zero value for nothing.
	Confirm Confirmation

	lastReload    *atomic.Int64         // when relocate last asked, Unix ns
	shardedPubSub *atomic.Pointer[bool] // what ShardedPubSub has found out
}

// NewRunner returns a Runner that sends as often as rdb is set to.
func NewRunner(rdb redis.UniversalClient) Runner {
	return Runner{
		Kind: KindOf(rdb), rdb: rdb, lastReload: new(atomic.Int64), shardedPubSub: new(atomic.Pointer[bool]),
	}
}

// A Call is one script, on some keys, with some arguments.
type Call struct {
	Script *Script
	Keys   []any // strings, boxed for go-redis
	Args   []any // ARGV

	// Resent is the place in ARGV, counted from 1, of the ms since the call was
	// first sent, at Start; 0 where the script does not want to know. Beyond
	// Before, if any, a call that may have been carried out is not sent again.
	Resent int
	Start  time.Time
	Before time.Time

	// Done reports whether a reply is that of a call that has changed what replicas
	// must have (Runner.Confirm). Nil where they need not have it.
	Done func(Reply) bool
}

// argv returns the words of the EVALSHA, and where ARGV begins.
func (c *Call) argv() (argv []any, from int) {
	const more = 3 // command, hash and number of keys
	from = more + len(c.Keys)
	argv = make([]any, from, from+max(len(c.Args), c.Resent))
	argv[0], argv[1], argv[2] = "evalsha", c.Script.hash, len(c.Keys)
	copy(argv[more:], c.Keys)
	return append(argv, c.Args...), from
}

// FailureKey is the key of a context's value: a func(error) that is told what Redis
// or the network said to a call that is sent again.
type FailureKey struct{}

// Run sends a call and returns the reply of the script. A script that the server
// does not know is sent whole. A call whose reply was lost is sent again if the
// script is repeatable, and says so. While the slot of its keys moves to another node,
// a call is sent again until it has moved, for movingFor at most.
//
// unsure reports whether the call may have been carried out without its reply
// reaching us: after an error, or before it was sent again.
func (r *Runner) Run(ctx context.Context, call *Call) (reply Reply, unsure bool, err error) {
	argv, from := call.argv()
	start := time.Now()
	for attempt := 0; ; attempt++ {
		var cmd *command
		if cmd, err = r.once(ctx, call, argv); err == nil {
			var lost, more bool
			if reply, lost, more, err = r.carriedOut(call, cmd); !more {
				return reply, unsure || lost, err
			}
		}
		lost, again := cmd.outcome(err, call.Script.repeatable)
		unsure = unsure || lost
		r.reloadNodes(ctx, err)
		if redis.IsTryAgainError(err) && time.Since(start) < movingFor {
			attempt = max(0, min(attempt, r.retries-1))
		}
		if attempt >= r.retries || !again || unsure && call.tooLate() {
			return reply, unsure, err
		}
		if unsure {
			argv = call.markResent(argv, from)
		}
		reportFailure(ctx, err)
		if r.pause(ctx, attempt) != nil {
			return reply, unsure, err
		}
	}
}

// movingFor is how long a slot may be on its way before its calls fail. Its keys move one
// by one, and a script needs all that it names on the same node.
const movingFor = 3 * time.Second

// late reports whether the call may not be sent again any more.
func (c *Call) tooLate() bool { return !c.Before.IsZero() && time.Now().After(c.Before) }

// marked returns argv for a call that may have reached the server before.
func (c *Call) markResent(argv []any, from int) []any {
	if c.Resent == 0 {
		return argv
	}
	for len(argv) < from+c.Resent {
		argv = append(argv, "")
	}
	argv[from+c.Resent-1] = time.Since(c.Start).Milliseconds()
	return argv
}

// tell tells the observer in ctx, if there is one, what was said to a call.
func reportFailure(ctx context.Context, err error) {
	if failed, ok := ctx.Value(FailureKey{}).(func(error)); ok && ctx.Err() == nil {
		failed(err)
	}
}

// once sends a script by its hash, and whole if the server does not know it.
func (r *Runner) once(ctx context.Context, call *Call, argv []any) (*command, error) {
	cmd := newCommand(ctx, argv)
	err := r.process(ctx, call, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		argv[0], argv[1] = "eval", call.Script.Source
		cmd = newCommand(ctx, argv)
		err = r.process(ctx, call, cmd)
		argv[0], argv[1] = "evalsha", call.Script.hash
	}
	return cmd, err
}

// process sends a command, and WAIT behind it where the call wants that.
func (r *Runner) process(ctx context.Context, call *Call, cmd *command) error {
	if call.Done == nil || r.Confirm.Replicas == 0 {
		if err := r.rdb.Process(ctx, cmd); err != nil {
			return err
		}
		return cmd.Err() // of a deferred AutoPipeliner: it replies there, and only there
	}
	return r.processAndWait(ctx, cmd)
}

// TypeOf returns what TYPE says of a key, empty if that cannot be had at once. It
// is asked a single time: the error that needs it can do without.
func (r *Runner) TypeOf(ctx context.Context, key string) string {
	cmd := newCommand(ctx, []any{"type", key})
	_ = r.rdb.Process(ctx, cmd) // which keeps the error
	kind, err := cmd.Text()
	if err != nil {
		return ""
	}
	return kind
}

// A command is one that go-redis must not send again by itself: only the Runner
// knows how to say that it did.
type command struct {
	*redis.Cmd
	sent    atomic.Bool // it may have been: go-redis has read what to send
	confirm *command    // the WAIT that was sent behind it, nil if there was none
}

// keysFrom is where the keys of an EVALSHA begin.
const keysFrom = 3

func newCommand(ctx context.Context, argv []any) *command {
	cmd := &command{Cmd: redis.NewCmd(ctx, argv...)}
	if len(argv) > keysFrom {
		cmd.SetFirstKeyPos(keysFrom)
	}
	return cmd
}

// key returns the first key of a script, empty if it has none.
func (cmd *command) key() string {
	if words := cmd.Cmd.Args(); len(words) > keysFrom {
		if key, ok := words[keysFrom].(string); ok {
			return key
		}
	}
	return ""
}

// NoRetry keeps go-redis from sending the command twice.
func (*command) NoRetry() bool { return true }

// Args notes that the words are read that are to be sent: go-redis reads them when
// it has a connection. A command whose context ended before was not sent.
func (cmd *command) Args() []any {
	cmd.sent.Store(true)
	return cmd.Cmd.Args()
}

// outcome reports what has become of a command that failed: whether it may have
// been carried out (lost), and whether it may be sent again.
func (cmd *command) outcome(err error, repeatable bool) (lost, again bool) {
	broken, sent := replyLost(err), cmd.sent.Load()
	lost = broken && sent
	return lost, lost && repeatable || broken && !sent || notCarriedOut(err)
}

// A Reply is the numbers that a script replies: a single one (Brief), or a table.
type Reply struct {
	Brief bool
	one   int64
	table []int64
}

// ReplyOf returns the reply that has these numbers.
func ReplyOf(numbers []int64) Reply { return Reply{table: numbers} }

// Decode returns the numbers in the reply of a script, an ErrShape if it holds
// anything else.
func Decode(val any) (Reply, error) {
	if n, ok := val.(int64); ok {
		return Reply{Brief: true, one: n}, nil
	}
	items, ok := val.([]any)
	if !ok || len(items) == 0 {
		return Reply{}, shapeError(val)
	}
	table := make([]int64, len(items))
	for i, item := range items {
		if table[i], ok = item.(int64); !ok {
			return Reply{}, shapeError(val)
		}
	}
	return Reply{table: table}, nil
}

// At returns the number at a place, 0 where there is none.
func (reply Reply) At(i int) int64 {
	switch {
	case reply.Brief && i == 0:
		return reply.one
	case i < len(reply.table):
		return reply.table[i]
	}
	return 0
}

// From returns the numbers from a place on, nil if there are none.
func (reply Reply) From(i int) []int64 {
	if i >= len(reply.table) {
		return nil
	}
	return reply.table[i:]
}

func shapeError(val any) error {
	return fmt.Errorf("%w %v (%T), must be integers", ErrShape, val, val)
}

// A Result is what has become of one call of RunAll.
type Result struct {
	Reply Reply
	Err   error
}

// RunAll sends calls in one pipeline, each once. Scripts that a server does not know are
// sent whole in a second one.
func (r *Runner) RunAll(ctx context.Context, calls []*Call) []Result {
	results, left := make([]Result, len(calls)), make([]int, len(calls))
	for i := range left {
		left[i] = i
	}
	for _, whole := range []bool{false, true} {
		left = r.runAll(ctx, calls, left, whole, results)
	}
	return results
}

// runAll sends those calls that are left, whole or by their hashes. It returns those whose
// scripts the server does not know.
func (r *Runner) runAll(ctx context.Context, calls []*Call, left []int, whole bool,
	results []Result) (unknown []int) {
	cmds := make([]*command, len(left))
	pipe := r.rdb.Pipeline()
	for i, n := range left {
		argv, _ := calls[n].argv()
		if whole {
			argv[0], argv[1] = "eval", calls[n].Script.Source
		}
		cmds[i] = newCommand(ctx, argv)
		_ = pipe.Process(ctx, cmds[i])
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	for i, n := range left {
		result := &results[n]
		if result.Err = cmds[i].Err(); result.Err == nil {
			result.Reply, result.Err = Decode(cmds[i].Val())
		} else if redis.HasErrorPrefix(result.Err, "NOSCRIPT") {
			unknown = append(unknown, n)
		}
	}
	return unknown
}
