package redisx

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Runner sends scripts through one client, and sends them again where that is
// safe.
type Runner struct {
	Kind
	rdb redis.UniversalClient

	// Confirm is the confirmation for calls with a Call.Done; none if it is zero.
	Confirm Confirmation

	lastReload    *atomic.Int64         // in Unix ns
	shardedPubSub *atomic.Pointer[bool] // the answer that ShardedPubSub remembers
}

// NewRunner returns a Runner that sends a call as often as rdb is configured to.
func NewRunner(rdb redis.UniversalClient) Runner {
	return Runner{
		Kind: KindOf(rdb), rdb: rdb, lastReload: new(atomic.Int64), shardedPubSub: new(atomic.Pointer[bool]),
	}
}

// A Call is one run of a script on some keys with some arguments.
type Call struct {
	Script *Script
	Keys   []any // strings, boxed for go-redis
	Args   []any // ARGV

	// Resent is the position in ARGV, counted from 1, of the ms since Start, at
	// which the call was first sent; 0 if the script does not need them. After
	// Before, if it is set, a call that may have been carried out is not sent
	// again: the script may have forgotten the first copy.
	Resent int
	Start  time.Time
	Before time.Time

	// Done reports whether a reply says that the call has changed something,
	// which replicas must then have (Runner.Confirm). It is nil if they need not.
	Done func(Reply) bool
}

// argv returns the words of the EVALSHA, and the index at which ARGV begins.
func (c *Call) argv() (argv []any, from int) {
	const more = 3 // command, hash and number of keys
	from = more + len(c.Keys)
	argv = make([]any, from, from+max(len(c.Args), c.Resent))
	argv[0], argv[1], argv[2] = "evalsha", c.Script.hash, len(c.Keys)
	copy(argv[more:], c.Keys)
	return append(argv, c.Args...), from
}

// FailureKey is the key of a context value: a func(error) that is called with the
// error of each attempt that is repeated.
type FailureKey struct{}

// Run sends a call and returns the reply of the script. If the server does not
// know the script, Run sends its text. If the reply is lost, Run sends a
// repeatable script again, marked as a copy. While the slot of the keys moves to
// another node, Run repeats the call until it has moved, for at most movingFor.
//
// ambiguous reports whether the call may have been carried out without a reply:
// after an error, or before the last attempt.
func (r *Runner) Run(ctx context.Context, call *Call) (reply Reply, ambiguous bool, err error) {
	argv, from := call.argv()
	start := time.Now()
	for attempt := 0; ; attempt++ {
		var cmd *command
		if cmd, err = r.once(ctx, call, argv); err == nil {
			var lost, more bool
			if reply, lost, more, err = r.carriedOut(call, cmd); !more {
				return reply, ambiguous || lost, err
			}
		}
		lost, again := cmd.outcome(err, call.Script.repeatable)
		ambiguous = ambiguous || lost
		r.reloadNodes(ctx, err)
		// A slot may take longer to move than all attempts. So these do not use
		// them up.
		if redis.IsTryAgainError(err) && time.Since(start) < movingFor {
			attempt = max(0, min(attempt, r.retries-1))
		}
		if attempt >= r.retries || !again || ambiguous && call.tooLate() {
			return reply, ambiguous, err
		}
		if ambiguous {
			argv = call.markResent(argv, from)
		}
		reportFailure(ctx, err)
		if r.pause(ctx, attempt) != nil {
			return reply, ambiguous, err
		}
	}
}

// movingFor is how long a slot may move before its calls fail. Its keys move one
// by one, and a script needs all its keys on one node.
const movingFor = 3 * time.Second

// tooLate reports whether the call must not be sent again.
func (c *Call) tooLate() bool { return !c.Before.IsZero() && time.Now().After(c.Before) }

// markResent returns argv for a copy of a call that may have reached the server.
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

// reportFailure passes the error of an attempt to the function in ctx, if there
// is one. After the end of ctx the error is about ctx, not about Redis.
func reportFailure(ctx context.Context, err error) {
	if failed, ok := ctx.Value(FailureKey{}).(func(error)); ok && ctx.Err() == nil {
		failed(err)
	}
}

// once sends a script by its hash, and then its text if the server does not know
// it.
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

// process sends a command, followed by WAIT if the call needs confirmation.
func (r *Runner) process(ctx context.Context, call *Call, cmd *command) error {
	if call.Done == nil || r.Confirm.Replicas == 0 {
		if err := r.rdb.Process(ctx, cmd); err != nil {
			return err
		}
		return cmd.Err() // a deferred AutoPipeliner returns its error only here
	}
	return r.processAndWait(ctx, cmd)
}

// TypeOf returns the TYPE of a key, empty if it is not to be had at once. One
// attempt is enough, because only the text of an error needs it.
func (r *Runner) TypeOf(ctx context.Context, key string) string {
	cmd := newCommand(ctx, []any{"type", key})
	_ = r.rdb.Process(ctx, cmd) // cmd keeps the error
	kind, err := cmd.Text()
	if err != nil {
		return ""
	}
	return kind
}

// A command is sent once by go-redis. Only the Runner may repeat it, because only
// the Runner knows how to mark the copy.
type command struct {
	*redis.Cmd
	// sent says that the command may have been sent: go-redis has read its words.
	sent    atomic.Bool
	confirm *command // the WAIT that follows it, nil if there is none
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

// Args notes that go-redis has read the words, which it does when it has a
// connection. A command whose context ended before that was not sent.
func (cmd *command) Args() []any {
	cmd.sent.Store(true)
	return cmd.Cmd.Args()
}

// outcome reports whether a failed command may have been carried out (lost), and
// whether it may be sent again.
func (cmd *command) outcome(err error, repeatable bool) (lost, again bool) {
	broken, sent := replyLost(err), cmd.sent.Load()
	lost = broken && sent
	return lost, lost && repeatable || broken && !sent || notCarriedOut(err)
}

// A Reply has the numbers that a script replies: a single one (Brief), or a
// table.
type Reply struct {
	Brief bool
	one   int64
	table []int64
}

// ReplyOf returns the reply that has these numbers.
func ReplyOf(numbers []int64) Reply { return Reply{table: numbers} }

// Decode returns the numbers in the reply of a script. If the reply holds
// anything else, the error is an ErrShape.
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

// At returns the number at index i, 0 if there is none.
func (reply Reply) At(i int) int64 {
	switch {
	case reply.Brief && i == 0:
		return reply.one
	case i < len(reply.table):
		return reply.table[i]
	}
	return 0
}

// From returns the numbers from index i on, nil if there are none.
func (reply Reply) From(i int) []int64 {
	if i >= len(reply.table) {
		return nil
	}
	return reply.table[i:]
}

func shapeError(val any) error {
	return fmt.Errorf("%w %v (%T), must be integers", ErrShape, val, val)
}

// A Result is the outcome of one call of RunAll.
type Result struct {
	Reply Reply
	Err   error
}

// RunAll sends calls in one pipeline, each once. A second pipeline sends the
// texts of scripts that a server does not know.
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

// runAll sends the calls that are left, by their hashes or with their texts
// (whole). It returns the calls whose scripts the server does not know.
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
