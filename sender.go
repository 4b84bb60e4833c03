package rratelimiter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Where the arguments of a script stand: ARGV[i] is at argv0+i of its EVALSHA,
// behind name, hash, the number of keys and three keys. The headers of the
// scripts say what they are.
const (
	argv0 = 5

	argSession = 2
	argNumber  = 3
	argPermits = 4
	argRecords = 5
	argNow     = 6
	argResent  = 7
	argNumbers = 8
	argAfter   = 9
	argKept    = 10
	argChannel = 11
	argSlot    = 12
	argRuns    = 13
)

// sessionLife is how long a session that nobody uses is known at least
// (scripts/parts/session.lua).
const sessionLife = time.Minute

// command is an EVALSHA that go-redis must not send again by itself: only the
// sender knows to say that it did.
type command struct {
	*redis.Cmd
	sent atomic.Bool // it may have been: go-redis has read what to send
}

func newCommand(ctx context.Context, argv []any) *command {
	cmd := &command{Cmd: redis.NewCmd(ctx, argv...)}
	cmd.SetFirstKeyPos(3)
	return cmd
}

// NoRetry keeps go-redis from sending the command twice.
func (*command) NoRetry() bool { return true }

// Args notes that somebody reads what is to be sent: go-redis does when it has
// a connection to send it on. One whose context ended before was not sent.
func (c *command) Args() []any {
	c.sent.Store(true)
	return c.Cmd.Args()
}

// sender sends scripts, again where that is safe.
type sender struct {
	rdb        redis.UniversalClient
	retries    int
	minBackoff time.Duration
	maxBackoff time.Duration
}

// newSender takes over what the caller has set on rdb about sending again.
func newSender(rdb redis.UniversalClient) sender {
	s := sender{rdb, 3, 8 * time.Millisecond, 512 * time.Millisecond} // go-redis's own defaults
	switch rdb := rdb.(type) {
	case *redis.Client:
		o := rdb.Options()
		s.retries, s.minBackoff, s.maxBackoff = o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff
	case *redis.ClusterClient:
		o := rdb.Options()
		s.retries, s.minBackoff, s.maxBackoff = o.MaxRedirects, o.MinRetryBackoff, o.MaxRetryBackoff
	case *redis.Ring:
		o := rdb.Options()
		s.retries, s.minBackoff, s.maxBackoff = o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff
	}
	return s
}

// send runs a script whose EVALSHA is argv and answers the numbers of its
// reply. A script that the server does not know is sent whole. A request
// whose reply was lost is sent again if the script is repeatable, and says so.
//
// unsure reports whether the request may have been carried out without that
// answer reaching us: after an error, or before it was sent again. It was first
// sent at start; a minute later nobody may know it any more, and it is not sent
// again.
func (s sender) send(ctx context.Context, sc *script, argv []any, start time.Time) (n reply, unsure bool, err error) {
	for attempt := 0; ; attempt++ {
		cmd := newCommand(ctx, argv)
		err = s.rdb.Process(ctx, cmd)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			argv[0], argv[1] = "eval", sc.source
			cmd = newCommand(ctx, argv)
			err = s.rdb.Process(ctx, cmd)
			argv[0], argv[1] = "evalsha", sc.hash
		}
		if err == nil {
			n, err = decode(cmd.Val())
			return n, unsure, err
		}
		broken, sent := replyLost(err), cmd.sent.Load()
		lost := broken && sent
		unsure = unsure || lost
		if attempt >= s.retries || !(lost && sc.repeatable || broken && !sent || notCarriedOut(err)) ||
			unsure && time.Since(start) > sessionLife-time.Second {
			return n, unsure, err
		}
		if unsure {
			argv = markResent(argv, start)
		}
		if failed, ok := ctx.Value(failures{}).(func(error)); ok && ctx.Err() == nil {
			failed(err)
		}
		if s.pause(ctx, attempt) != nil {
			return n, unsure, err
		}
	}
}

// failures is the key of a context's value: a func(error) that is told what
// Redis or the network said to a request that is sent again.
type failures struct{}

// markResent says in an EVALSHA that it may have reached the server before,
// no longer ago than start.
func markResent(argv []any, start time.Time) []any {
	for len(argv) <= argv0+argResent {
		argv = append(argv, "")
	}
	argv[argv0+argResent] = time.Since(start).Milliseconds()
	return argv
}

// A reply is what a script answers: one integer, or up to five that its header
// names and any number behind them.
type reply struct {
	numbers [5]int64
	answers []int64
	brief   bool // it is one integer
}

// decode checks the shape of a script's reply.
func decode(val any) (r reply, err error) {
	items, ok := val.([]any)
	if !ok {
		r.numbers[0], ok = val.(int64)
		r.brief = true
	} else if ok = len(items) > 0; ok {
		if more := len(items) - len(r.numbers); more > 0 {
			r.answers = make([]int64, more)
		}
		for i := 0; i < len(items) && ok; i++ {
			to := r.numbers[min(i, len(r.numbers)-1):]
			if i >= len(r.numbers) {
				to = r.answers[i-len(r.numbers):]
			}
			to[0], ok = items[i].(int64)
		}
	}
	if !ok {
		return r, fmt.Errorf("%w %v (%T), must be integers", errShape, val, val)
	}
	return r, nil
}

// answered reports whether err is an answer of Redis.
func answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// replyLost reports whether a request that was sent may have been carried out
// though it failed, if in part: anything that is not an answer of Redis, and not a failure
// to reach it; or a script that was cut short.
func replyLost(err error) bool {
	return cutShort(err) ||
		!answered(err) && !errors.Is(err, redis.ErrClosed) && !errors.Is(err, redis.ErrPoolTimeout) && !dialFailed(err)
}

// cutShort reports whether a script ended in its midst because a key was gone
// from a slot of a cluster that is moving to another node. Ours remove a key last
// of all, so that none should; what others have done to a key, and other servers,
// may do it all the same. Redis 7 names the reason at once, one before that begins
// with the script that failed, for whatever reason. (HasErrorPrefix drops "ERR".)
func cutShort(err error) bool {
	return redis.HasErrorPrefix(err, "Script attempted to access a non local key") ||
		redis.HasErrorPrefix(err, "Error running script (call to f_")
}

func dialFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// notCarriedOut reports whether a request failed in passing, before anything
// was done: those that go-redis itself would send again.
func notCarriedOut(err error) bool {
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsMaxClientsError(err) ||
		redis.IsNoReplicasError(err) ||
		errors.Is(err, redis.ErrPoolTimeout) || dialFailed(err)
}

// final reports whether an error is the answer of Redis to a request, which
// sending it again would not change.
func final(err error) bool { return answered(err) && !notCarriedOut(err) && !cutShort(err) }

// pause waits before the next attempt, longer each time and not all callers
// alike. It answers the error of ctx when that ends first.
func (s sender) pause(ctx context.Context, attempt int) error {
	most := s.minBackoff << attempt
	if most>>attempt != s.minBackoff || most > s.maxBackoff { // the shift may overflow
		most = s.maxBackoff
	}
	if most <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(most/2 + rand.N(most/2+1))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// detail is what follows the code in a script's error.
func detail(err error, code string) string {
	_, after, _ := strings.Cut(err.Error(), code+" ")
	return after
}
