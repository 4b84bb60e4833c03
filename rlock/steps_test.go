package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// steps are the steps that are not of a caller.
var steps = map[string]func(p *play, ctx context.Context, words []string) error{
	"done": (*play).done,
	"late": (*play).arrives,
	"cut":  func(p *play, _ context.Context, _ []string) error { p.proxy.Cut(); return nil },

	"now": func(p *play, _ context.Context, _ []string) error {
		if p.before, p.now = p.sent(), time.Now(); p.mini == nil {
			return p.look.ConfigResetStat(p.Context()).Err()
		}
		return nil
	},
	"after": func(p *play, _ context.Context, words []string) error {
		return p.is("it was", int64(time.Since(p.now)), words[0])
	},
	"sent": func(p *play, _ context.Context, words []string) error {
		return p.is("were sent", p.sent()-p.before, words[0])
	},
	"ran": func(p *play, _ context.Context, words []string) error { // scripts, at least; or a range
		least, _, isRange := strings.Cut(words[0], "..")
		p.ran(0, p.number(least))
		if !isRange {
			return nil
		}
		return p.is("scripts", p.scripts(), words[0])
	},
	"called": func(p *play, _ context.Context, words []string) error { // one of these commands
		redistest.Eventually(p, "a call", func() bool { return redistest.Calls(p, p.look, words...) > 0 })
		return nil
	},
	"sleep": func(p *play, _ context.Context, words []string) error {
		time.Sleep(p.span(words, 0))
		return nil
	},
	"clock": func(p *play, _ context.Context, words []string) error { p.set(p.span(words, 0)); return nil },

	"queue": (*play).queues,
	"last": func(p *play, _ context.Context, words []string) error {
		all := p.waiting()
		return equal("last in the queue", all[len(all)-1], p.word(words[0]))
	},
	"put": func(p *play, _ context.Context, words []string) error { // with a place that lasts for a time
		return p.puts(p.look.RPush, words[0], p.span(words, 1))
	},
	"behind": func(p *play, _ context.Context, words []string) error { // as Java does: for a time more
		all := p.waiting()
		return p.puts(p.look.RPush, words[0], p.left(all[len(all)-1])+p.span(words, 1))
	},
	"head": func(p *play, _ context.Context, words []string) error {
		return p.puts(p.look.LPush, p.word(words[0]), p.span(words, 1))
	},
	"ends": func(p *play, _ context.Context, words []string) error { // the place of an owner, after a time
		return p.scores(p.word(words[0]), p.span(words, 1))
	},
	"wins": (*play).wins,
	"place": func(p *play, _ context.Context, words []string) error {
		return p.place(p.word(words[0]), words[1])
	},
	"places": func(p *play, _ context.Context, words []string) (err error) {
		for _, owner := range p.waiting() {
			err = errors.Join(err, p.place(owner, words[0]))
		}
		return err
	},
	"listens": (*play).listens,
	"message": func(p *play, _ context.Context, words []string) error {
		return equal("message", p.messages[words[0]](), words[1])
	},
	"hearers": func(p *play, ctx context.Context, words []string) error { // which do not ask
		for range p.number(words[0]) {
			sub, err := p.subscribes(ctx, p.look.Subscribe, p.keys.Channel)
			if err != nil {
				return err
			}
			sub.Channel()
		}
		return nil
	},
	"subscribed": func(p *play, ctx context.Context, words []string) error { // channels
		return p.soon("channels", func() error {
			return p.is("channels", int64(len(p.look.PubSubChannels(ctx, "*").Val())), words[0])
		})
	},

	"lease": func(p *play, ctx context.Context, words []string) error { // of the lock, or of another key
		key := p.word(append(words, "LOCK")[1])
		return p.soon("a lease", func() error {
			return p.is("it lasts", int64(p.look.PTTL(ctx, key).Val()), words[0])
		})
	},
	"keys": func(p *play, ctx context.Context, words []string) error { // of the lock, but idempotency keys
		for i, word := range words {
			words[i] = p.word(word)
		}
		all := p.look.Keys(ctx, "*"+strings.Trim(p.name, "{}x")+"*").Val()
		all = slices.DeleteFunc(all, func(key string) bool {
			return strings.HasPrefix(key, p.keys.IdempotencyKeys) || strings.Contains(key, "first")
		})
		slices.Sort(all)
		return equal("keys", strings.Join(all, " "), strings.Join(words, " "))
	},
	"hash": func(p *play, ctx context.Context, words []string) error { // an owner and a count, if it is held
		for i, word := range words {
			words[i] = p.word(word)
		}
		var all []string
		for owner, count := range p.look.HGetAll(ctx, p.name).Val() {
			all = append(all, owner, count)
		}
		return equal("hash", strings.Join(all, " "), strings.Join(words, " "))
	},
	"free": func(p *play, _ context.Context, _ []string) error { return p.free() },
	"tidied": func(p *play, ctx context.Context, words []string) error {
		if p.mini != nil {
			time.Sleep(time.Second)
			return nil
		}
		beside := p.name + ":tidied"
		NoError(p, pass(ctx, p.of(p.process(words[0]).locks, beside)))
		return p.idempotencyKeys(beside, "0")
	},
	"idempotency": func(p *play, _ context.Context, words []string) error { // keys
		return p.idempotencyKeys(p.name, words[0])
	},
	"redis": func(p *play, ctx context.Context, words []string) error {
		command := make([]any, len(words))
		for i, word := range words {
			command[i] = p.word(word)
		}
		return p.look.Do(ctx, command...).Err()
	},

	"deny": func(p *play, _ context.Context, words []string) error { // a command, or scripts of n keys
		p.mini.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
			deny := command == words[0] || command == "EVALSHA" && args[1] == words[0]
			if deny {
				peer.WriteError("NOPERM this user has no permissions to run it")
			}
			return deny
		})
		return nil
	},
	"rest": func(p *play, _ context.Context, words []string) error { // a command, until wake
		p.rest = make(chan struct{})
		p.mini.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
			if command == words[0] {
				<-p.rest
			}
			return false
		})
		return nil
	},
	"wake": func(p *play, _ context.Context, _ []string) error { close(p.rest); return nil },
	"stop": func(p *play, _ context.Context, _ []string) error { p.server.Stop(); return nil },
	"restart": func(p *play, _ context.Context, _ []string) error { // without its data
		p.server.Restart(p)
		p.knows()
		return nil
	},

	"freeze": func(p *play, _ context.Context, words []string) error { // the server says nothing to a process
		l := &p.process(words[0]).line
		return l.sets(func() { l.gate = make(chan struct{}) })
	},
	"thaw": func(p *play, _ context.Context, words []string) error {
		p.process(words[0]).opens()
		return nil
	},
	"fail": func(p *play, _ context.Context, words []string) error {
		l := &p.process(words[0]).line
		return l.sets(func() { l.down = true })
	},
	"back": func(p *play, _ context.Context, words []string) error {
		l := &p.process(words[0]).line
		return l.sets(func() { l.down = false })
	},
	"slow": func(p *play, _ context.Context, words []string) error {
		l := &p.process(words[0]).line
		return l.sets(func() { l.late = p.span(words, 1) })
	},
	"closed": func(p *play, ctx context.Context, words []string) error {
		lock := p.caller(words[0]).lock
		return p.soon("the end of a Client", func() error {
			return wanted(ErrOf(lock.IsLocked(ctx)), []string{"ErrClosed"})
		})
	},
	"close": func(p *play, _ context.Context, words []string) error {
		return p.process(words[0]).limiters.Close()
	},
}

// arrives lets held requests pass, and returns when the server has carried them out: it serves a connection
// in order.
func (p *play) arrives(context.Context, []string) error {
	if p.mini != nil {
		p.release()
		p.settle()
		return nil
	}
	before := p.scripts()
	p.release()
	p.ran(before, 1)
	return nil
}

// queues expects callers and owners in the queue, in this order, each with a score.
func (p *play) queues(_ context.Context, names []string) error {
	for i, name := range names {
		names[i] = p.word(name)
	}
	return p.soon("the queue", func() error { // on Redis a caller may still be leaving
		if got := p.waiting(); !slices.Equal(got, names) {
			return fmt.Errorf("%q wait, want %q", got, names)
		}
		return nil
	})
}

// place expects how long the place of an owner lasts.
func (p *play) place(owner, word string) error {
	return p.soon("a place", func() error { return p.is(owner+" lasts", int64(p.left(owner)), word) })
}

// puts puts an owner of another process into the queue, until its place ends.
func (p *play) puts(
	push func(context.Context, string, ...any) *redis.IntCmd, owner string, left time.Duration,
) error {
	return errors.Join(p.scores(owner, left), push(p.Context(), p.keys.Queue, owner).Err())
}

// scores makes the place of an owner end after a time.
func (p *play) scores(owner string, left time.Duration) error {
	score := float64(time.Now().Add(left).UnixMilli())
	return p.look.ZAdd(p.Context(), p.keys.Timeout, redis.Z{Score: score, Member: owner}).Err()
}

// wins takes the lock for the head of the queue as Java does: it subtracts from all other scores what the
// head had added.
func (p *play) wins(ctx context.Context, words []string) error {
	owner, added := words[0], p.span(words, 1)
	if err := equal("head", p.look.LPop(ctx, p.keys.Queue).Val(), owner); err != nil {
		return err
	}
	tx := p.look.TxPipeline()
	tx.ZRem(ctx, p.keys.Timeout, owner)
	for _, other := range p.waiting() {
		tx.ZIncrBy(ctx, p.keys.Timeout, -float64(added.Milliseconds()), other)
	}
	tx.Del(ctx, p.name)
	tx.HSet(ctx, p.name, owner, 1)
	tx.PExpire(ctx, p.name, time.Hour)
	return ErrOf(tx.Exec(ctx))
}

// listens listens as another owner, or to the channel of a caller, which listens to that alone, or of all.
func (p *play) listens(ctx context.Context, words []string) error {
	channel, subscribe := p.keys.Channel, p.look.Subscribe
	if words[0] != "all" {
		channel += ":" + p.word(words[0])
	}
	plain, shard := p.listeners(channel)
	if shard > 0 {
		subscribe = p.look.SSubscribe
		if plain > 0 || shard > 1 {
			return fmt.Errorf("%d and %d listen", plain, shard)
		}
	}
	sub, err := p.subscribes(ctx, subscribe, channel)
	p.messages[words[0]] = func() string {
		return must(sub.ReceiveMessage(within(p)))(p).Payload
	}
	return err
}

func (p *play) subscribes(ctx context.Context, subscribe func(context.Context, ...string) *redis.PubSub,
	channel string) (*redis.PubSub, error) {
	sub := subscribe(p.Context(), channel)
	p.Cleanup(func() { _ = sub.Close() })
	_, err := sub.Receive(ctx)
	return sub, err
}

// idempotencyKeys expects this number of idempotency keys of a lock.
func (p *play) idempotencyKeys(name, number string) error {
	return p.soon("idempotency keys", func() error {
		keys := p.look.Keys(p.Context(), wire.LockKeysOf(name).IdempotencyKeys+"*").Val()
		return p.is("idempotency keys", int64(len(keys)), number)
	})
}
