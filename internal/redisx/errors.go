package redisx

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrShape reports a reply in none of the shapes that this library's scripts return.
var ErrShape = errors.New("a script answered")

// Answered reports whether err is an answer of Redis.
func Answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// Final reports whether an error is the answer of Redis to a request, and another
// attempt would get the same answer.
func Final(err error) bool { return Answered(err) && !notCarriedOut(err) && !scriptCutShort(err) }

// Detail returns what follows the code in the error of a script.
func Detail(err error, code string) string {
	_, after, _ := strings.Cut(err.Error(), code+" ")
	return after
}

// replyLost reports whether a failed request may have been carried out, at least
// in part: its error is neither an answer of Redis nor a failure to reach it, or
// the script was cut short.
func replyLost(err error) bool {
	if scriptCutShort(err) {
		return true
	}
	return !Answered(err) && !errors.Is(err, redis.ErrClosed) && !errors.Is(err, redis.ErrPoolTimeout) &&
		!dialFailed(err)
}

// scriptCutShort reports whether Redis stopped a script because a key was gone
// from a slot of a cluster that is moving to another node. Our scripts remove a
// key last of all, so none should be stopped; other clients that remove keys, and
// other servers, may still cause it. Redis 7 names the reason first. Earlier
// versions begin with the name of the script, whatever the reason.
// (HasErrorPrefix drops "ERR".)
func scriptCutShort(err error) bool {
	return redis.HasErrorPrefix(err, "Script attempted to access a non local key") ||
		redis.HasErrorPrefix(err, "Error running script (call to f_")
}

// Denied reports whether a script ended because the user may not run one of its
// commands. Redis does not say which. (HasErrorPrefix drops "ERR".)
func Denied(err error) bool {
	return redis.HasErrorPrefix(err, "The user executing the script can't ")
}

// dialFailed reports whether no connection was made, so that nothing was sent.
func dialFailed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// notCarriedOut reports whether a request failed for a passing reason before
// Redis carried it out. go-redis would send it again.
func notCarriedOut(err error) bool {
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsMaxClientsError(err) ||
		redis.IsNoReplicasError(err) ||
		errors.Is(err, redis.ErrPoolTimeout) || dialFailed(err)
}
