package compat_test

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/compare"
)

// calls are the steps of a side, of which the last are those of Go. testdata/beside.txt has their meaning.
var calls = map[string]func(p *play, s side, l limiter){
	"try": func(p *play, _ side, l limiter) {
		c, _ := rateOf(p.words)
		p.said(l.TrySetRate(p.ctx, c))
	},
	"rate": func(p *play, _ side, l limiter) {
		c, keep := rateOf(p.words)
		err := l.SetRate(p.ctx, c, keep)
		p.said(err == nil, err)
	},
	"update": func(p *play, _ side, l limiter) {
		c, keep := rateOf(p.words)
		p.said(l.UpdateRate(p.ctx, c, keep))
	},
	"config": func(p *play, _ side, l limiter) {
		c, _ := rateOf(p.words)
		Expect(l.Config(p.ctx)).To(Equal(c))
	},

	"take": func(p *play, _ side, l limiter) {
		times, _ := strconv.Atoi(strings.TrimPrefix(append(p.words, "")[1], "x"))
		for range max(1, times) {
			yes(l.TryAcquire(p.ctx, p.number(0), p.span(1)))
		}
	},
	"no":      func(p *play, _ side, l limiter) { no(l.TryAcquire(p.ctx, p.number(0), p.span(1))) },
	"acquire": func(p *play, _ side, l limiter) { done(l.Acquire(p.ctx, p.number(0))) },
	"give":    func(p *play, _ side, l limiter) { done(l.Release(p.ctx, p.number(0))) },
	"left":    func(p *play, _ side, l limiter) { is(p.number(0))(l.AvailablePermits(p.ctx)) },
	"comes": func(p *play, _ side, l limiter) {
		Eventually(p.ctx, func() (int64, error) { return l.AvailablePermits(p.ctx) }).
			WithTimeout(patience).WithPolling(5 * time.Millisecond).Should(Equal(p.number(0)))
	},
	"exceeds": func(p *play, _ side, l limiter) {
		n := p.number(0)
		failsAll(compare.ExceedsRate, l.Acquire(p.ctx, n), errOf(l.TryAcquire(p.ctx, n, 0)),
			errOf(l.TryAcquire(p.ctx, n, time.Second)))
	},
	"unset": func(p *play, s side, l limiter) {
		failsAll(compare.NotInitialized, l.Acquire(p.ctx, 1), errOf(l.TryAcquire(p.ctx, 1, 0)),
			errOf(l.AvailablePermits(p.ctx)))
		if can(s, []string{"", "give"}) {
			fails(compare.NotInitialized, l.Release(p.ctx, 1))
			done(l.Release(p.ctx, 0))
			fails(compare.BadArgument, l.Release(p.ctx, -1))
		}
	},
	"breaks": func(p *play, _ side, l limiter) {
		text := ContainSubstring(strings.Join(p.words[1:], " "))
		Expect(errOf(l.TryAcquire(p.ctx, p.number(0), 0))).To(MatchError(text))
	},
	"blind": func(p *play, _ side, l limiter) {
		text := ContainSubstring(strings.Join(p.words, " "))
		Expect(errOf(l.AvailablePermits(p.ctx))).To(MatchError(text))
	},
	"misreads": func(p *play, _ side, l limiter) {
		left, err := l.AvailablePermits(p.ctx)
		Expect(left).NotTo(Equal(p.number(0)), "%v", err)
	},

	"exists":    func(p *play, _ side, l limiter) { p.said(l.Exists(p.ctx)) },
	"delete":    func(p *play, _ side, l limiter) { p.said(l.Delete(p.ctx)) },
	"clear":     func(p *play, _ side, l limiter) { p.said(l.ClearExpire(p.ctx)) },
	"expire":    func(p *play, _ side, l limiter) { p.said(l.Expire(p.ctx, p.span(0))) },
	"ifset":     func(p *play, _ side, l limiter) { p.said(l.ExpireIfSet(p.ctx, p.span(0))) },
	"ifnotset":  func(p *play, _ side, l limiter) { p.said(l.ExpireIfNotSet(p.ctx, p.span(0))) },
	"ifgreater": func(p *play, _ side, l limiter) { p.said(l.ExpireIfGreater(p.ctx, p.span(0))) },
	"ifless":    func(p *play, _ side, l limiter) { p.said(l.ExpireIfLess(p.ctx, p.span(0))) },
	"expireAt": func(p *play, _ side, l limiter) {
		p.at = time.Now().Add(p.span(0)).Truncate(time.Millisecond)
		p.said(l.ExpireAt(p.ctx, p.at))
	},
	"ends": func(p *play, _ side, l limiter) { is(p.at.UnixMilli())(l.ExpireTime(p.ctx)) },
	"ttl": func(p *play, _ side, l limiter) {
		want := map[string]int64{"never": -1, "gone": -2}[p.words[0]]
		is(cmp.Or(want, p.span(0).Milliseconds()))(roughly(l.TimeToLive(p.ctx)))
	},
	"rename": func(p *play, s side, l limiter) { p.renames(s, l) },
	"state": func(p *play, s side, _ limiter) {
		Expect(p.keys.of(s.ID()).state(p.ctx)).To(Equal(p.state()))
	},

	"charge": func(p *play, s side, _ limiter) {
		r, err := p.goLimiter(s).Charge(p.ctx, p.number(0))
		done(err)
		Expect(r.Debt).To(Equal(p.number(1)))
	},
	"reserve": func(p *play, s side, _ limiter) {
		r, err := p.goLimiter(s).Reserve(p.ctx, p.number(0), 0)
		done(err)
		p.reserved = append(p.reserved, r.ID())
	},
	"settle": func(p *play, s side, _ limiter) {
		r, err := s.(*goSide).c.Reservation(p.reserved[p.number(0)-1])
		done(err)
		done(r.Settle(p.ctx, p.number(1)))
	},
	"repair": func(p *play, s side, _ limiter) {
		got, err := p.goLimiter(s).Repair(p.ctx)
		done(err)
		for i, n := range []int64{got.Records, got.Rewritten, got.Dropped, got.Drift} {
			Expect(p.words[i] == "_" || n == p.number(i)).To(BeTrue(), "%+v", got)
		}
	},
	"waits": func(p *play, _ side, l limiter) {
		p.ended = make(chan error, 1)
		go func() { p.ended <- l.Acquire(p.ctx, p.number(0)) }()
		channel := "__keyspace@0__:" + p.keys.value
		Eventually(p.ctx, func() int64 { return look.PubSubNumSub(p.ctx, channel).Val()[channel] }).
			WithTimeout(patience).WithPolling(time.Millisecond).Should(Equal(int64(1)))
	},
	"listens": func(p *play, s side, _ limiter) {
		p.deleted = make(chan string, 1)
		stop, err := p.goLimiter(s).OnDeleted(p.ctx, func(name string) { p.deleted <- name })
		done(err)
		DeferCleanup(stop)
	},
}

func errOf[T any](_ T, err error) error { return err }

// failsAll expects errors of a kind.
func failsAll(kind string, errs ...error) {
	GinkgoHelper()
	for _, err := range errs {
		fails(kind, err)
	}
}

// looks are the steps of no side: looks at the limiter in Redis, and with ! what another program writes.
var looks = map[string]func(p *play, words []string){
	"since":  func(*play, []string) {},
	"before": func(*play, []string) {},
	"mark":   func(p *play, _ []string) { p.start = time.Now() },
	"passed": func(p *play, _ []string) {
		most := cmp.Or(p.span(1), time.Hour)
		Expect(time.Since(p.start)).To(And(BeNumerically(">=", p.span(0)), BeNumerically("<", most)))
	},
	"served": func(p *play, words []string) {
		want := BeNil()
		if len(words) > 0 {
			want = MatchError(rratelimiter.ErrNotInitialized)
		}
		Eventually(p.ctx, p.ended).WithTimeout(patience).Should(Receive(want))
	},
	"heard": func(p *play, _ []string) {
		Eventually(p.ctx, p.deleted).WithTimeout(patience).Should(Receive(Equal(p.name)))
	},
	"state": func(p *play, _ []string) { Expect(p.keys.state(p.ctx)).To(Equal(p.state())) },
	"records": func(p *play, words []string) {
		p.words = append([]string{"-"}, words...)
		Expect(p.keys.state(p.ctx).records).To(Equal(p.state().records))
	},
	"few": func(p *play, _ []string) {
		Expect(len(p.keys.state(p.ctx).records)).To(BeNumerically("<", p.number(0)))
	},
	"format": func(p *play, words []string) {
		for _, m := range look.ZRange(p.ctx, p.keys.permits, 0, -1).Val() {
			Expect(formatOf(m)).To(Equal(p.sides[words[0]].writes()))
		}
	},
	"finds": func(p *play, words []string) { finds(p.ctx, p.name, strings.Join(words, " ")) },
	"keys": func(p *play, _ []string) {
		Expect(look.Keys(p.ctx, "*"+p.name+"*").Val()).To(HaveLen(int(p.number(0))))
	},
	"field": func(p *play, words []string) {
		Expect(look.HGet(p.ctx, p.name, words[0]).Val()).To(Equal(words[1]))
	},
	"fields": func(p *play, words []string) {
		Expect(look.HKeys(p.ctx, p.name).Val()).To(ConsistOf(words))
	},
	"lives": func(p *play, _ []string) {
		p.onKeys(func(key, word string, d time.Duration) {
			if want := map[string]int64{"-": -1}[word]; word != "_" {
				is(cmp.Or(want, d.Milliseconds()))(roughly(look.Do(p.ctx, "PTTL", key).Int64()))
			}
		})
	},

	"value!": func(p *play, words []string) {
		if words[0] == "-" {
			done(look.Del(p.ctx, p.keys.value).Err())
			return
		}
		done(look.Set(p.ctx, p.keys.value, words[0], 0).Err())
	},
	"records!": func(p *play, _ []string) { done(look.Del(p.ctx, p.keys.permits).Err()) },
	"record!": func(p *play, words []string) {
		format := p.beside()
		if len(words) > 2 {
			format = writers[words[2]].format
		}
		at, member := time.Now().Add(-p.span(1)).UnixMilli(), recordOf(format, byte(p.number(0)))
		done(look.ZAdd(p.ctx, p.keys.permits, redis.Z{Score: float64(at), Member: member}).Err())
	},
	"hash!": func(p *play, _ []string) { done(look.Del(p.ctx, p.keys.hash).Err()) },
	"field!": func(p *play, words []string) {
		if words[1] == "-" {
			done(look.HDel(p.ctx, p.keys.hash, words[0]).Err())
			return
		}
		done(look.HSet(p.ctx, p.keys.hash, words[0], words[1]).Err())
	},
	"age": func(p *play, words []string) {
		at := float64(time.Now().Add(-p.span(0)).UnixMilli())
		for _, m := range look.ZRange(p.ctx, p.keys.permits, 0, -1).Val() {
			if len(words) < 2 || formatOf(m) == writers[words[1]].format {
				done(look.ZAdd(p.ctx, p.keys.permits, redis.Z{Score: at, Member: m}).Err())
			}
		}
	},
	"expires!": func(p *play, _ []string) {
		p.onKeys(func(key, word string, d time.Duration) {
			if word == "-" {
				done(look.Persist(p.ctx, key).Err())
			} else {
				done(look.PExpire(p.ctx, key, d).Err())
			}
		})
	},
}
