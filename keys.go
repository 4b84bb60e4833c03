package rratelimiter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// limiterKeys are the keys of one limiter, named as Redisson names them.
type limiterKeys struct {
	client *Client
	err    error // why they cannot be used, nil if they can

	name  string     // as the caller gave it, before the name mapper
	hash  string     // NAME: rate, interval, type, keepAliveTime
	pairs [2]keyPair // by RateType

	// channel is where a script publishes that those who wait may be served
	// earlier.
	channel string

	// typ is the type that we believe in; the scripts find out when it is not so.
	typ atomic.Int32
}

// keyPair holds value and permits: those all clients share, or our own.
type keyPair struct {
	value, permits string

	// argv is hash, value and permits as go-redis wants its arguments,
	// boxed once instead of for each command.
	argv [3]any
}

// keysOf returns the keys of the limiter called name, which was given as
// argument.
func (c *Client) keysOf(argument, name string) *limiterKeys {
	k := &limiterKeys{client: c, name: name}
	k.err = k.named(k.find(argument))
	return k
}

// find sets the keys, and returns why they cannot be used, if so.
func (k *limiterKeys) find(argument string) error {
	c, name := k.client, k.name
	switch {
	case c.err != nil:
		return c.err
	case name == "":
		return invalid(argument, `""`, "not be empty")
	}
	if k.hash = c.mapper(name); k.hash == "" {
		return invalid(argument, k.described(), "not be mapped to an empty name")
	}
	k.derive(c.id)
	k.typ.Store(int32(c.types.of(k.hash)))
	if c.sharded {
		return k.checkSlot(argument)
	}
	return nil
}

// believed is the type that the limiter has as far as we know.
func (k *limiterKeys) believed() RateType { return RateType(k.typ.Load()) }

// believe notes the type that was found, also for RateLimiters to come.
func (k *limiterKeys) believe(typ RateType) {
	k.typ.Store(int32(typ))
	k.client.types.note(k.hash, typ)
}

// maxTypes is how many limiters a Client knows the type of.
const maxTypes = 10_000

// types are what the limiters are that are not Overall, so that a RateLimiter
// made for one request does not ask twice. Beyond maxTypes all are forgotten,
// and found out again.
type types struct {
	mu        sync.RWMutex
	perClient map[string]struct{} // by hash; guarded by mu
}

func (t *types) of(hash string) RateType {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if _, ok := t.perClient[hash]; ok {
		return PerClient
	}
	return Overall
}

func (t *types) note(hash string, typ RateType) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if typ != PerClient {
		delete(t.perClient, hash)
		return
	}
	if t.perClient == nil || len(t.perClient) >= maxTypes {
		t.perClient = map[string]struct{}{}
	}
	t.perClient[hash] = struct{}{}
}

// described returns the name, quoted, and what it is mapped to, if to another.
func (k *limiterKeys) described() string {
	if k.hash == k.name {
		return strconv.Quote(k.name)
	}
	return fmt.Sprintf("%q, mapped to %q", k.name, k.hash)
}

// derive sets the keys that follow from the hash and the ID of the client.
func (k *limiterKeys) derive(id string) {
	value, permits := suffix(k.hash, "value"), suffix(k.hash, "permits")
	k.channel = suffix(k.hash, "changed")
	k.pairs[Overall] = keyPair{value: value, permits: permits}
	k.pairs[PerClient] = keyPair{value: suffix(value, id), permits: suffix(permits, id)}
	for i := range k.pairs {
		p := &k.pairs[i]
		p.argv = [3]any{k.hash, p.value, p.permits}
	}
}

// suffix is RedissonObject.suffixName: a name with a brace is taken to have a
// hash tag already.
func suffix(name, s string) string {
	if strings.Contains(name, "{") {
		return name + ":" + s
	}
	return "{" + name + "}:" + s
}

// all returns the five keys: the hash, the shared pair and our own.
func (k *limiterKeys) all() []string {
	return []string{
		k.hash,
		k.pairs[Overall].value, k.pairs[Overall].permits,
		k.pairs[PerClient].value, k.pairs[PerClient].permits,
	}
}

// hashTag is the part of a key by which a cluster chooses its slot: what is
// between the first { and the next }, or all of it when there is nothing.
func hashTag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// checkSlot refuses a name whose keys a cluster would keep in different slots.
// It was given as argument.
func (k *limiterKeys) checkSlot(argument string) error {
	for _, key := range k.all() {
		if hashTag(key) != hashTag(k.hash) {
			return invalid(argument, k.described(), "be without braces, or with one non-empty {tag}, on a cluster: "+
				"its keys would be in different slots")
		}
	}
	return nil
}

// wrongKind says which of a pair's keys is of the wrong kind, and of which if
// Redis still tells; detail is the script's: the number of the key and the kind
// it should have.
func (k *limiterKeys) wrongKind(typ RateType, detail string) string {
	number, kind, _ := strings.Cut(detail, " ")
	key := k.hash
	switch number {
	case "2":
		key = k.pairs[typ].value
	case "3":
		key = k.pairs[typ].permits
	}
	switch found := k.client.kindOf(key); found {
	case "", "none", kind: // it does not tell, or the key has changed since
		return fmt.Sprintf("key %s must be a %s", key, kind)
	default:
		return fmt.Sprintf("key %s is a %s, must be a %s", key, found, kind)
	}
}

// kindOf returns what TYPE says of a key, empty if it cannot be had at once. It
// is asked once: the error that needs it can do without.
func (c *Client) kindOf(key string) string {
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	cmd := newCommand(ctx, []any{"type", key})
	_ = c.rdb.Process(ctx, cmd) // which keeps the error
	kind, err := cmd.Text()
	if err != nil {
		return ""
	}
	return kind
}

// single reports whether the Client is on one server, as go-redis sees it.
func (c *Client) single() bool {
	_, ok := c.rdb.(*redis.Client)
	return ok
}
