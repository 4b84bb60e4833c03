package redisx

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrShape says that a script has replied something that none of ours does.
var ErrShape = errors.New("a script answered")

// Answered reports whether err is an answer of Redis.
func Answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// Final reports whether an error is the answer of Redis to a request, which
// sending it again would not change.
func Final(err error) bool { return Answered(err) && !notCarriedOut(err) && !scriptCutShort(err) }

// Detail is what follows the code in the error of a script.
func Detail(err error, code string) string {
	_, after, _ := strings.Cut(err.Error(), code+" ")
	return after
}

// replyLost reports whether a request that was sent may have been carried out
// though it failed, if in part: the error is no answer of Redis and no failure to
// reach it, or the script was cut short.
func replyLost(err error) bool {
	if scriptCutShort(err) {
		return true
	}
	return !Answered(err) && !errors.Is(err, redis.ErrClosed) && !errors.Is(err, redis.ErrPoolTimeout) &&
		!dialFailed(err)
}

// cutShort reports whether a script ended in its midst because a key was gone
// from a slot of a cluster that is moving to another node. Ours remove a key last
// of all, so that none should; what others do to a key, and other servers, may
// cause it all the same. Redis 7 names the reason at once, earlier versions begin
// with the script that failed, for whatever reason. (HasErrorPrefix drops "ERR".)
func scriptCutShort(err error) bool {
	return redis.HasErrorPrefix(err, "Script attempted to access a non local key") ||
		redis.HasErrorPrefix(err, "Error running script (call to f_")
}

// Denied reports whether a script ended because the user may not run one of its
// commands. Redis does not say which. (HasErrorPrefix drops "ERR".)
func Denied(err error) bool {
	return redis.HasErrorPrefix(err, "The user executing the script can't ")
}

func dialFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// notCarriedOut reports whether a request failed in passing, before anything
// was done: go-redis itself would send it again.
func notCarriedOut(err error) bool {
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsMaxClientsError(err) ||
		redis.IsNoReplicasError(err) ||
		errors.Is(err, redis.ErrPoolTimeout) || dialFailed(err)
}
