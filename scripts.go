package rratelimiter

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The pieces that scripts are put together from, and what is special in each.
var (
	//go:embed scripts/common.lua
	commonLua string
	//go:embed scripts/limiter.lua
	limiterLua string
	//go:embed scripts/due.lua
	dueLua string
	//go:embed scripts/ahead.lua
	aheadLua string
	//go:embed scripts/redate.lua
	redateLua string
	//go:embed scripts/outstanding.lua
	outstandingLua string
	//go:embed scripts/mine.lua
	mineLua string
	//go:embed scripts/seen.lua
	seenLua string
	//go:embed scripts/numbers.lua
	numbersLua string
	//go:embed scripts/drop.lua
	dropLua string
	//go:embed scripts/pack.lua
	packLua string
	//go:embed scripts/put.lua
	putLua string
	//go:embed scripts/record.lua
	recordLua string
	//go:embed scripts/remember.lua
	rememberLua string
	//go:embed scripts/sweep.lua
	sweepLua string
	//go:embed scripts/close.lua
	closeLua string
	//go:embed scripts/changed.lua
	changedLua string
	//go:embed scripts/lifetime.lua
	lifetimeLua string
	//go:embed scripts/last.lua
	lastLua string

	//go:embed scripts/acquire.lua
	acquireLua string
	//go:embed scripts/any.lua
	anyLua string
	//go:embed scripts/own.lua
	ownLua string
	//go:embed scripts/release.lua
	releaseLua string
	//go:embed scripts/withdraw.lua
	withdrawLua string
	//go:embed scripts/repair.lua
	repairLua string
	//go:embed scripts/peek.lua
	peekLua string
	//go:embed scripts/others.lua
	othersLua string
	//go:embed scripts/try_set_rate.lua
	trySetRateLua string
	//go:embed scripts/set_rate.lua
	setRateLua string
	//go:embed scripts/clear.lua
	clearLua string
	//go:embed scripts/delete.lua
	deleteLua string
	//go:embed scripts/rename.lua
	renameLua string
	//go:embed scripts/expire.lua
	expireLua string
)

// A script is one operation on a limiter.
type script struct {
	source string
	hash   any // its SHA-1, boxed for go-redis

	// repeatable scripts may be sent again when their reply was lost: they
	// find out that they were done, or do no harm and answer the same.
	repeatable bool
}

// The scripts. Those that write records exist twice: a request is known by its
// records, or by a mark it leaves in the hash, where all that is granted in a
// slot of time is one record (WithResolution) or records are too short (RecordFI).
var (
	acquireScript = newScript(true, limiterLua, mineLua, acquireLua, numbersLua,
		redateLua, dropLua, packLua, recordLua, closeLua, lifetimeLua, lastLua)
	withdrawScript = newScript(true, limiterLua, mineLua,
		redateLua, dropLua, packLua, putLua, withdrawLua, closeLua, changedLua, lifetimeLua, lastLua)
	giveBackScript = newScript(true, limiterLua, mineLua, ownLua,
		redateLua, dropLua, packLua, putLua, releaseLua, sweepLua, closeLua, changedLua, lifetimeLua, lastLua)
	markedAcquireScript = newScript(true, limiterLua, seenLua, acquireLua, numbersLua,
		redateLua, dropLua, packLua, putLua, recordLua, rememberLua, sweepLua, closeLua, lifetimeLua, lastLua)
	markedWithdrawScript = newScript(true, limiterLua, seenLua,
		redateLua, dropLua, packLua, putLua, withdrawLua, closeLua, changedLua, lifetimeLua, lastLua)
	markedGiveBackScript = newScript(true, limiterLua, seenLua, ownLua,
		redateLua, dropLua, packLua, putLua, releaseLua, sweepLua, closeLua, changedLua, lifetimeLua, lastLua)

	releaseScript = newScript(true, limiterLua, anyLua,
		redateLua, dropLua, packLua, putLua, releaseLua, sweepLua, closeLua, changedLua, lifetimeLua, lastLua)
	repairScript     = newScript(true, limiterLua, dropLua, packLua, putLua, repairLua, closeLua, changedLua, lifetimeLua, lastLua)
	peekScript       = newScript(true, limiterLua, peekLua, numbersLua)
	othersScript     = newScript(true, othersLua)
	trySetRateScript = newScript(false, trySetRateLua)
	setRateScript    = newScript(false, setRateLua)
	clearScript      = newScript(true, clearLua)
	deleteScript     = newScript(false, changedLua, deleteLua)
	renameScript     = newScript(false, changedLua, renameLua)
	expireScript     = newScript(false, expireLua)
)

// included are the pieces that stand in the midst of others.
var included = strings.NewReplacer(
	"-- include ahead.lua\n", aheadLua,
	"-- include due.lua\n", dueLua,
	"-- include outstanding.lua\n", outstandingLua,
	"-- include changed.lua\n", changedLua,
	"-- include lifetime.lua\n", lifetimeLua,
)

func newScript(repeatable bool, pieces ...string) *script {
	source := included.Replace(included.Replace(commonLua + strings.Join(pieces, ""))) // due.lua includes another
	sum := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(sum[:]), repeatable}
}

// Where a script's arguments stand in its EVALSHA, after name, hash, the
// number of keys and three keys; common.lua says what they are. Those from
// argNow on are left away where none of them is needed.
const (
	argType   = 6
	argOwn    = 7 // two of the script's own
	argNow    = 9
	argResent = 10
	argRate   = 11
	argMore   = 12 // more of the script's own
)

// command is an EVALSHA that go-redis must not send again by itself: only the
// sender knows to say that it did.
type command struct{ *redis.Cmd }

// NoRetry keeps go-redis from sending the command twice.
func (command) NoRetry() bool { return true }

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
// sent at start.
func (s sender) send(ctx context.Context, sc *script, argv []any, start time.Time) (n reply, unsure bool, err error) {
	for attempt := 0; ; attempt++ {
		cmd := command{redis.NewCmd(ctx, argv...)}
		cmd.SetFirstKeyPos(3)
		err = s.rdb.Process(ctx, cmd)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			argv[0], argv[1] = "eval", sc.source
			cmd = command{redis.NewCmd(ctx, argv...)}
			cmd.SetFirstKeyPos(3)
			err = s.rdb.Process(ctx, cmd)
			argv[0], argv[1] = "evalsha", sc.hash
		}
		if err == nil {
			n, err = decode(cmd.Val())
			return n, unsure, err
		}
		lost := replyLost(err)
		unsure = unsure || lost
		if attempt >= s.retries || !(lost && sc.repeatable || notCarriedOut(err)) {
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
	for len(argv) < argMore {
		argv = append(argv, "")
	}
	argv[argResent] = time.Since(start).Milliseconds()
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

// replyLost reports whether a request may have been carried out though it
// failed, if in part: anything that is not an answer of Redis, and not a failure
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
