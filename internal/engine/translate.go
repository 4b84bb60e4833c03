package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// translated turns the error of a script or of Redis, for the keys of one type, into an
// Error. It compares only the first word, the code listed in the headers of the scripts,
// because texts differ between servers. The result still unwraps to the answer of Redis.
func translated(l *Limiter, typ int, err error) error {
	has := func(code string) bool { return redis.HasErrorPrefix(err, code+" ") }
	bad := func(detail string) error {
		return &Error{kind: ErrBadState, detail: ": " + l.wrongKind(typ, detail), wraps: []error{err}}
	}
	if _, ok := errors.AsType[*redisx.UnconfirmedError](err); ok {
		return &Error{kind: ErrNotReplicated, cause: err}
	}
	switch {
	case err == nil:
		return nil
	case has("NOTINIT"):
		return notInitialized(err)
	case has("BADFIELD"):
		field, value, _ := strings.Cut(redisx.Detail(err, "BADFIELD"), " ")
		return badField(l.Hash, field, value, "be an integer between -2^53 and 2^53", err)
	case has("BADKEY"):
		return bad(redisx.Detail(err, "BADKEY"))
	case has("WRONGTYPE"): // from a plain command on the hash
		return bad("1 hash")
	case has("DEBT"):
		const text = ": the debt would be more than 2^53"
		return &Error{kind: limit.ErrInvalidArgument, detail: text, wraps: []error{err}}
	case has("CROSSSLOT"):
		const text = ": its keys are in different slots of a cluster"
		return &Error{kind: limit.ErrInvalidArgument, detail: text, cause: err}
	case redisx.Denied(err):
		const text = ": the Redis user may not run a command of the script, which ACL LOG names"
		return &Error{prefix: "rratelimiter: NOPERM for ", detail: text, cause: err}
	case l.engine.config.Runner.Single && (has("MOVED") || has("ASK")):
		const text = " is part of a cluster, use redis.NewClusterClient"
		return &Error{prefix: "rratelimiter: the server of ", detail: text, cause: err}
	}
	return err
}

// wrongKind describes the key with the wrong kind of value, and the kind if it can still
// be read. detail comes from the script: the number of the key and the kind that it must
// have.
func (l *Limiter) wrongKind(typ int, detail string) string {
	number, kind, _ := strings.Cut(detail, " ")
	key := l.Hash
	switch number {
	case "2":
		key = l.Keys().Pairs[typ].Value
	case "3":
		key = l.Keys().Pairs[typ].Permits
	}
	// Not the caller's context: it may have ended, and the error would then say
	// less.
	ctx, cancel := context.WithTimeout(l.engine.Context(), time.Second)
	defer cancel()
	switch found := l.engine.config.Runner.TypeOf(ctx, key); found {
	case "", "none", kind: // no answer, or the key has changed since
		return fmt.Sprintf("key %s must be a %s", key, kind)
	default:
		return fmt.Sprintf("key %s is a %s, must be a %s", key, found, kind)
	}
}
