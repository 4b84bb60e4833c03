package request

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/limit"
)

// translated turns the error of a script or of Redis, for the keys of one type, into an
// Error. It compares only the first word, the code listed in the headers of the scripts,
// because texts differ between servers. The result still unwraps to the answer of Redis.
func translated(t *Target, typ int, err error) error {
	has := func(code string) bool { return redis.HasErrorPrefix(err, code+" ") }
	bad := func(detail string) error {
		detail = ": " + t.wrongKind(typ, detail)
		return &failure.Error{Kind: failure.ErrBadState, Detail: detail, Wraps: []error{err}}
	}
	if _, ok := errors.AsType[*redisx.UnconfirmedError](err); ok {
		return &failure.Error{Kind: failure.ErrNotReplicated, Cause: err}
	}
	switch {
	case err == nil:
		return nil
	case has("NOTINIT"):
		return failure.NotInitialized(err)
	case has("BADFIELD"):
		field, value, _ := strings.Cut(redisx.Detail(err, "BADFIELD"), " ")
		return failure.BadField(t.Hash, field, value, "be an integer between -2^53 and 2^53", err)
	case has("BADKEY"):
		return bad(redisx.Detail(err, "BADKEY"))
	case has("WRONGTYPE"): // from a plain command on the hash
		return bad("1 hash")
	case has("DEBT"):
		const text = ": the debt would be more than 2^53"
		return &failure.Error{Kind: limit.ErrInvalidArgument, Detail: text, Wraps: []error{err}}
	case has("CROSSSLOT"):
		const text = ": its keys are in different slots of a cluster"
		return &failure.Error{Kind: limit.ErrInvalidArgument, Detail: text, Cause: err}
	case redisx.Denied(err):
		const text = ": the Redis user may not run a command of the script, which ACL LOG names"
		return &failure.Error{Prefix: "rratelimiter: NOPERM for ", Detail: text, Cause: err}
	case t.source.Runner.Single && (has("MOVED") || has("ASK")):
		const text = " is part of a cluster, use redis.NewClusterClient"
		return &failure.Error{Prefix: "rratelimiter: the server of ", Detail: text, Cause: err}
	}
	return err
}

// wrongKind describes the key with the wrong kind of value, and the kind if it can still
// be read. detail comes from the script: the number of the key and the kind that it must
// have.
func (t *Target) wrongKind(typ int, detail string) string {
	number, kind, _ := strings.Cut(detail, " ")
	key := t.Hash
	switch number {
	case "2":
		key = t.Keys().Pairs[typ].Value
	case "3":
		key = t.Keys().Pairs[typ].Permits
	}
	// Not the caller's context: it may have ended, and the error would then say
	// less.
	ctx, cancel := context.WithTimeout(t.source.Runner.Base, time.Second)
	defer cancel()
	switch found := t.source.Runner.TypeOf(ctx, key); found {
	case "", "none", kind: // no answer, or the key has changed since
		return fmt.Sprintf("key %s must be a %s", key, kind)
	default:
		return fmt.Sprintf("key %s is a %s, must be a %s", key, found, kind)
	}
}
