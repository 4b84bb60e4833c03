package redisx

import (
	"context"
	"fmt"
	"slices"
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

	// Base is the context of requests that are sent for several callers.
	Base context.Context

	outboxes      *outboxes             // nil if commands must not travel together
	lastReload    *atomic.Int64         // in Unix ns
	shardedPubSub *atomic.Pointer[bool] // the answer that ShardedPubSub remembers
}

// NewRunner returns a Runner that sends a call as often as rdb is configured to.
func NewRunner(rdb redis.UniversalClient) Runner {
	kind := KindOf(rdb)
	return Runner{
		Kind: kind, rdb: rdb, Base: context.Background(), outboxes: newOutboxes(rdb, kind.ReadTimeout),
		lastReload: new(atomic.Int64), shardedPubSub: new(atomic.Pointer[bool]),
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

	// Alone says that the call must not wait for other callers. The probes of a silent
	// server are such calls: an outbox keeps what it has until a reply comes.
	Alone bool

	// Table says that the script replies a table. Its numbers are then read
	// without a box for each.
	Table bool

	// space is room for the words of an EVALSHA of few keys and arguments, so that
	// they need no allocation of their own.
	space [20]any
}

// argv returns the words of the EVALSHA, and the index at which ARGV begins.
func (c *Call) argv() (argv []any, from int) {
	argv = append(c.space[:0], "evalsha", c.Script.hash, len(c.Keys))
	argv = append(argv, c.Keys...)
	return append(argv, c.Args...), len(argv)
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
	// A repetition goes alone, because the failed attempt may have been a pipeline.
	alone := call.Alone
	for attempt := 0; ; attempt++ {
		var cmd *command
		if cmd, err = r.attempt(ctx, call, argv, alone); err == nil {
			var lost, more bool
			if reply, lost, more, err = r.carriedOut(call, cmd); !more {
				return reply, ambiguous || lost, err
			}
		}
		lost, again := cmd.outcome(err)
		ambiguous = ambiguous || lost
		r.reloadNodes(ctx, err)
		attempt = r.charged(attempt, err, start)
		// After the end of ctx a pipeline of another caller may still read argv.
		if attempt >= r.retries || !again || ctx.Err() != nil || ambiguous && call.tooLate() ||
			r.silentTooLong(err, start) {
			return reply, ambiguous, err
		}
		if ambiguous {
			argv = call.markResent(argv, from)
		}
		reportFailure(ctx, err)
		if alone = true; r.pause(ctx, max(0, attempt)) != nil {
			return reply, ambiguous, err
		}
	}
}

// charged returns the number of attempts that count after an error of the last one.
// The move of a slot may take longer than all attempts, and a pipeline may be cut
// short by another caller: neither uses up an attempt.
func (r *Runner) charged(attempt int, err error, start time.Time) int {
	switch {
	case err == errCut:
		return attempt - 1
	case redis.IsTryAgainError(err) && time.Since(start) < movingFor:
		return max(0, min(attempt, r.retries-1))
	}
	return attempt
}

// silentTooLong reports whether a call that began at start, and whose last attempt has ended with err, got
// no answer for as long as all attempts but the last take on a silent server. An attempt may take longer,
// because it waited for a connection or for earlier requests, and go-redis connects twice for a pipeline. It
// then counts for as many as it took.
func (k *Kind) silentTooLong(err error, start time.Time) bool {
	return err != errCut && !Answered(err) &&
		k.ReadTimeout > 0 && time.Since(start) > time.Duration(k.retries)*(k.ReadTimeout+k.maxBackoff)
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

// attempt sends a script by its hash, and then its text if the server does not know
// it.
func (r *Runner) attempt(ctx context.Context, call *Call, argv []any, alone bool) (*command, error) {
	cmd := newScriptCommand(ctx, call, argv)
	err := r.process(ctx, call, cmd, alone)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		text := slices.Clone(argv) // after the end of ctx, a pipeline of another caller may still read it
		text[0], text[1] = "eval", call.Script.Source
		cmd = newScriptCommand(ctx, call, text)
		err = r.process(ctx, call, cmd, alone)
	}
	return cmd, err
}

// process sends a command, followed by WAIT if the call needs confirmation.
func (r *Runner) process(ctx context.Context, call *Call, cmd *command, alone bool) error {
	key, keyed := "", len(call.Keys) > 0
	if keyed {
		key, keyed = call.Keys[0].(string)
	}
	switch {
	case call.Done != nil && r.Confirm.Replicas > 0:
		return r.processAndWait(ctx, key, cmd)
	case !alone && r.outboxes != nil && keyed:
		if o := r.outboxes.of(ctx, key); o != nil {
			return r.send(ctx, o, cmd)
		}
	}
	return r.rdb.Process(ctx, cmd)
}

// TypeOf returns the TYPE of a key, empty if it is not to be had at once. One
// attempt is enough, because only the text of an error needs it.
func (r *Runner) TypeOf(ctx context.Context, key string) string {
	cmd := once{redis.NewCmd(ctx, "type", key)}
	_ = r.rdb.Process(ctx, cmd) // cmd keeps the error
	kind, err := cmd.Text()
	if err != nil {
		return ""
	}
	return kind
}

// A once is a command that go-redis sends once.
type once struct{ *redis.Cmd }

// NoRetry keeps go-redis from sending the command twice.
func (once) NoRetry() bool { return true }

// A command is sent once by go-redis. Only the Runner may repeat it, because only
// the Runner knows how to mark the copy.
type command struct {
	redis.Cmder
	number redis.Cmd // the Cmder of most commands, which then needs no allocation of its own
	// sent says that the command may have been sent: go-redis has read its words.
	sent       atomic.Bool
	repeatable bool       // Script.repeatable
	confirm    *redis.Cmd // the WAIT that follows it, nil if there is none
}

// keysFrom is where the keys of an EVALSHA begin.
const keysFrom = 3

func newScriptCommand(ctx context.Context, call *Call, argv []any) *command {
	cmd := &command{repeatable: call.Script.repeatable}
	if call.Table {
		cmd.Cmder = redis.NewIntSliceCmd(ctx, argv...)
	} else {
		cmd.number = *redis.NewCmd(ctx, argv...)
		cmd.Cmder = &cmd.number
	}
	if len(call.Keys) > 0 {
		cmd.SetFirstKeyPos(keysFrom)
	}
	return cmd
}

// reply returns the numbers that the script has replied.
func (cmd *command) reply() (Reply, error) {
	switch cmd := cmd.Cmder.(type) {
	case *redis.IntSliceCmd:
		return Reply{table: cmd.Val()}, nil
	case *redis.Cmd:
		return Decode(cmd.Val())
	}
	return Reply{}, shapeError(nil)
}

// SetVal sets the reply, for hooks that reply instead of a server.
func (cmd *command) SetVal(reply any) {
	switch inner := cmd.Cmder.(type) {
	case *redis.Cmd:
		inner.SetVal(reply)
	case *redis.IntSliceCmd:
		if numbers, ok := reply.([]int64); ok {
			inner.SetVal(numbers)
		}
	}
}

// NoRetry keeps go-redis from sending the command twice.
func (*command) NoRetry() bool { return true }

// Args notes that go-redis has read the words, which it does when it has a
// connection. A command whose context ended before that was not sent.
func (cmd *command) Args() []any {
	cmd.sent.Store(true)
	return cmd.Cmder.Args()
}

// outcome reports whether a failed command may have been carried out (lost), and
// whether it may be sent again.
func (cmd *command) outcome(err error) (lost, again bool) {
	broken, sent := replyLost(err), cmd.sent.Load()
	lost = broken && sent
	return lost, lost && cmd.repeatable || broken && !sent || notCarriedOut(err)
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

// Len returns how many numbers a table has, 0 for a single number.
func (reply Reply) Len() int { return len(reply.table) }

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
		cmds[i] = newScriptCommand(ctx, calls[n], argv)
		_ = pipe.Process(ctx, cmds[i])
	}
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	for i, n := range left {
		result := &results[n]
		if result.Err = cmds[i].Err(); result.Err != nil {
			result.Err = r.afterPipeline(ctx, cmds[i], result.Err)
		}
		if result.Err == nil {
			result.Reply, result.Err = cmds[i].reply()
		} else if redis.HasErrorPrefix(result.Err, "NOSCRIPT") {
			unknown = append(unknown, n)
		}
	}
	return unknown
}
