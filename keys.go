package rratelimiter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
)

// limiterKeys are the keys of one limiter, and what the Client knows of it.
type limiterKeys struct {
	client *Client
	err    error  // why they cannot be used, nil if they can
	name   string // as the caller gave it, before the name mapper
	wire.Keys

	// boxed are hash, value and permits by type, as go-redis wants its arguments:
	// boxed once instead of for each command.
	boxed [2][3]any

	// typ is the type that we believe in; the scripts find out when it is not so.
	typ atomic.Int32
}

// keysOf returns the keys of the limiter called name, which was given as
// argument.
func (c *Client) keysOf(argument, name string) *limiterKeys {
	k := &limiterKeys{client: c, name: name}
	k.err = k.named(k.find(argument))
	return k
}

// unusable returns the keys of a limiter that cannot be used because of err.
func (c *Client) unusable(name string, err error) *limiterKeys {
	k := &limiterKeys{client: c, name: name}
	k.err = k.named(err)
	return k
}

// find sets the keys, and returns why they cannot be used, if so.
func (k *limiterKeys) find(argument string) error {
	c := k.client
	if c.err != nil {
		return c.err
	}
	if k.name == "" {
		return invalid(argument, `""`, "not be empty")
	}
	hash := c.mapper(k.name)
	if hash == "" {
		return invalid(argument, k.described(), "not be mapped to an empty name")
	}
	k.Keys = wire.KeysOf(hash, c.id)
	for typ, pair := range k.Pairs {
		k.boxed[typ] = [3]any{k.Hash, pair.Value, pair.Permits}
	}
	k.typ.Store(int32(c.types.of(k.Hash)))
	if c.runner.Sharded && !k.OneSlot() {
		return invalid(argument, k.described(),
			"be without braces, or with one non-empty {tag}, on a cluster: "+
				"its keys would be in different slots")
	}
	return nil
}

// described returns the name, quoted, and what it is mapped to, if to another.
func (k *limiterKeys) described() string {
	if k.Hash == k.name {
		return strconv.Quote(k.name)
	}
	return fmt.Sprintf("%q, mapped to %q", k.name, k.Hash)
}

// usable returns why a call cannot go ahead: something the limiter was made
// with, a closed Client, or a ctx that has ended.
func (k *limiterKeys) usable(ctx context.Context) error {
	switch {
	case k.err != nil:
		return k.err
	case k.client.closed():
		return ErrClosed
	}
	return ctx.Err()
}

// believed is the type that the limiter has as far as we know.
func (k *limiterKeys) believed() RateType { return RateType(k.typ.Load()) }

// believe notes the type that was found, also for RateLimiters to come.
func (k *limiterKeys) believe(typ RateType) {
	k.typ.Store(int32(typ))
	k.client.types.note(k.Hash, typ)
}

// maxTypes is how many limiters a Client knows the type of: some 1 MB of names.
const maxTypes = 10_000

// types are what the limiters are that are not Overall, so that a RateLimiter
// made for one request does not ask twice. Beyond maxTypes all are forgotten,
// and found out again.
type types struct {
	mu        sync.RWMutex
	perClient map[string]struct{} // by hash; guarded by mu
}

func (known *types) of(hash string) RateType {
	known.mu.RLock()
	defer known.mu.RUnlock()
	if _, ok := known.perClient[hash]; ok {
		return PerClient
	}
	return Overall
}

func (known *types) note(hash string, typ RateType) {
	known.mu.Lock()
	defer known.mu.Unlock()
	if typ != PerClient {
		delete(known.perClient, hash)
		return
	}
	if known.perClient == nil || len(known.perClient) >= maxTypes {
		known.perClient = map[string]struct{}{}
	}
	known.perClient[hash] = struct{}{}
}

// wrongKind says which of a pair's keys is of the wrong kind, and of which if
// Redis still tells; detail is the script's: the number of the key and the kind
// it should have.
func (k *limiterKeys) wrongKind(typ RateType, detail string) string {
	number, kind, _ := strings.Cut(detail, " ")
	key := k.Hash
	switch number {
	case "2":
		key = k.Pairs[typ].Value
	case "3":
		key = k.Pairs[typ].Permits
	}
	ctx, cancel := context.WithTimeout(k.client.ctx, time.Second)
	defer cancel()
	switch found := k.client.runner.TypeOf(ctx, key); found {
	case "", "none", kind: // it does not tell, or the key has changed since
		return fmt.Sprintf("key %s must be a %s", key, kind)
	default:
		return fmt.Sprintf("key %s is a %s, must be a %s", key, found, kind)
	}
}
