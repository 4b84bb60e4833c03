package rratelimiter

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A request is what one script call asks for: the permits of one caller, or
// of many who came together. It stays the same however often it is sent, so
// that it is charged once.
type request struct {
	keys    *limiterKeys
	runs    []run
	permits int64     // of all together
	records any       // that hold as many; []byte, boxed for go-redis
	mark    any       // by which it is known again where its records do not tell, otherwise nil
	start   time.Time // before it was first sent
	numbers bool      // somebody wants more than yes or no
	unsure  bool      // a copy of it may be on its way, or have been carried out
}

// A run is a number of equal requests, one behind the other; negative where
// they stand in line (scripts/acquire.lua).
type run struct{ permits, many int64 }

func (r run) size() int64 { return max(r.many, -r.many) }

func (c *Client) newRequest(k *limiterKeys, runs ...run) *request {
	r := &request{keys: k, runs: runs, start: time.Now()}
	for _, run := range runs {
		r.permits += run.permits * run.size()
	}
	if c.marks() {
		r.mark = fmt.Sprintf("%s %d %d", *c.writer.Load(), c.requests.Add(1), c.resolution.Milliseconds())
	}
	r.records = c.layout().appendAll(make([]byte, 0, recordSpace), r.permits, c.resolution > 0)
	return r
}

// attempt asks for the permits of a request until all of it is judged: a
// script that meets many expired records wants to be asked again.
func (l *RateLimiter) attempt(ctx context.Context, r *request) (reply, error) {
	sc, more := r.script(acquireScript, markedAcquireScript)
	if len(r.runs) > 1 || r.runs[0].size() > 1 {
		for _, run := range r.runs {
			more = append(more, run.permits, run.many)
		}
	}
	for {
		answer, unsure, err := l.call(ctx, r.keys, sc, asking{r.numbers, r.sent()}, r.permits, r.records, more...)
		r.unsure = r.unsure || unsure
		if answer.brief && answer.numbers[0] > 0 { // a lone request, refused
			answer.numbers[0], answer.answers = 0, []int64{0, answer.numbers[0]}
		}
		switch n := len(answer.answers); {
		case err == nil && answer.numbers[0] != 0:
			err = ctx.Err()
		case err == nil && n != 0 && n != 2*len(r.runs):
			err = fmt.Errorf("%w %d numbers for %d runs", errShape, n, len(r.runs))
		}
		if err != nil || answer.numbers[0] == 0 {
			return answer, err
		}
	}
}

// script chooses between two scripts, one that knows a request by its records and
// one that knows it by its mark, and puts the mark before its other arguments.
func (r *request) script(byRecords, byMark *script, more ...any) (*script, []any) {
	if r.mark == nil {
		return byRecords, more
	}
	return byMark, append([]any{r.mark}, more...)
}

// sent is when a request that may have been carried out was first sent.
func (r *request) sent() time.Time {
	if r.unsure {
		return r.start
	}
	return time.Time{}
}

// withdraw takes back, in the background, what a request was granted beyond
// the permits to keep, without its callers knowing. A copy of the request may
// still be on its way, so it is done again a second and ten seconds later. If
// Redis does not do it within a minute, or a copy arrives after that, the
// permits come back when their interval is over.
func (l *RateLimiter) withdraw(r *request, keep int64) {
	sc, more := r.script(withdrawScript, markedWithdrawScript, keep, r.keys.channel)
	if r.mark != nil {
		l.client.newWriter() // the next request must not write over what this one has left
	}
	done := 0
	l.client.insist(func(ctx context.Context) (again time.Duration, err error) {
		_, _, err = l.call(ctx, r.keys, sc, asking{since: r.start}, r.permits, r.records, more...)
		if err == nil {
			done++
		}
		return []time.Duration{0, time.Second, 9 * time.Second, 0}[done], err
	})
}

// giveBack releases, in the background, permits of a request whose callers have
// left meanwhile. If Redis does not do it within a minute, or it is not known
// whether it has, they come back when their interval is over. Where the limiter
// has been cleared since, so have they, and there is nothing to give back.
func (l *RateLimiter) giveBack(r *request, permits int64) {
	l.client.insist(func(ctx context.Context) (time.Duration, error) {
		given, err := l.release(ctx, r.keys, permits, r)
		permits -= given
		if replyLost(err) {
			err = nil
		}
		return 0, err
	})
}

// insist calls f in the background, for a minute at most: every second while
// it fails for a reason that may pass, and again after the time that it answers
// unless that is 0.
func (c *Client) insist(f func(ctx context.Context) (again time.Duration, err error)) {
	c.goBackground(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
			case <-ctx.Done():
				return
			}
			again, err := f(ctx)
			if err != nil && !final(err) {
				again = time.Second
			}
			if again == 0 {
				return
			}
			timer.Reset(again)
		}
	})
}

// release gives permits back, in as many calls as the records need that hold
// them. If it is told of which request, it does nothing an interval later, when
// they have come back by themselves, nor where nothing is left of that.
func (l *RateLimiter) release(ctx context.Context, k *limiterKeys, permits int64, of *request) (given int64, err error) {
	for {
		receipt, settled := newReceipt(), l.receipts.take()
		args := append([]any{permits - given, receipt}, append(settled, k.channel)...)
		sc, since := releaseScript, time.Time{}
		if of != nil {
			since = of.start
			sc, args = of.script(giveBackScript, markedGiveBackScript, args...)
			args = append([]any{of.permits, of.records}, args...)
		}
		r, unsure, err := l.call(ctx, k, sc, asking{since: since}, args[0], args[1], args[2:]...)
		if err != nil {
			l.receipts.settle(settled...)
			return given, err
		}
		if !unsure { // otherwise a first copy may still arrive
			l.receipts.settle(receipt)
		}
		if given += r.numbers[0]; r.numbers[1] == 0 {
			return given, nil
		}
	}
}

// asking is what a script must know of a call.
type asking struct {
	numbers bool      // it wants rate, permits left and the ms until all are back
	since   time.Time // when it was first sent, if it may have reached the server
}

// call runs a script on the limiter's keys. The script names the type it
// finds when that is not the one we believe in, and is asked once more.
func (l *RateLimiter) call(ctx context.Context, k *limiterKeys, sc *script, ask asking, a, b any, more ...any) (r reply, unsure bool, err error) {
	for range 3 {
		typ := RateType(l.typ.Load())
		var lost bool
		r, lost, err = l.send(ctx, sc, k, typ, ask, a, b, more...)
		unsure = unsure || lost
		if !redis.HasErrorPrefix(err, "OTHERTYPE ") {
			break
		}
		l.typ.Store(int32(1 - typ))
	}
	return r, unsure, err
}

// send runs a script on the keys of one type, with its own arguments: a, b and
// more. The scripts answer with numbers where they are given the rate last met;
// a PerClient limiter always gives it, for nobody who changes its rate can
// correct the value of our own pair.
func (l *RateLimiter) send(ctx context.Context, sc *script, k *limiterKeys, typ RateType, ask asking, a, b any, more ...any) (reply, bool, error) {
	p := &k.pairs[typ]
	start := time.Now()
	argv := make([]any, argNow, argMore+len(more))
	argv[0], argv[1], argv[2], argv[argType], argv[argOwn], argv[argOwn+1] = "evalsha", sc.hash, 3, int(typ), a, b
	copy(argv[3:], p.argv[:])
	if numbers := ask.numbers || typ == PerClient; numbers || !ask.since.IsZero() || len(more) > 0 || l.client.clock != nil {
		argv = append(argv, l.client.now(), "", "")
		if numbers {
			argv[argRate] = l.rate.Load()
		}
		if !ask.since.IsZero() {
			start = ask.since
			argv[argResent] = time.Since(start).Milliseconds()
		}
		argv = append(argv, more...)
	}
	r, unsure, err := l.client.sender.send(ctx, sc, argv, start)
	if err != nil {
		return r, unsure, k.scriptError(typ, err)
	}
	l.learn(sc, r)
	return r, unsure, nil
}

// learn keeps the rate that a script has found. The value of a pair of our own
// is right by that rate only where the script has written it, so peek teaches
// nothing, nor an acquire of more than the rate, and scripts that write but do
// not tell the rate make us forget it.
func (l *RateLimiter) learn(sc *script, r reply) {
	switch sc {
	case peekScript, othersScript:
	case acquireScript, markedAcquireScript:
		if r.numbers[1] != 0 && !r.idle() {
			l.rate.Store(r.numbers[1])
		}
	default:
		l.rate.Store(0)
	}
}

// idle reports whether the reply is that of an acquire that has written nothing,
// because everybody wants more than the rate.
func (r reply) idle() bool {
	for i := 1; i < len(r.answers); i += 2 {
		if r.answers[i] != -1 {
			return false
		}
	}
	return len(r.answers) > 0
}

// An answer is what one caller gets.
type answer struct {
	ok    bool
	wait  int64 // us until the permits are there, if refused; 0 not known, -1 never
	again bool  // wait is when to look again: the permits may be there no sooner than all
	limit int64
	left  int64 // permits, may be negative
	reset int64 // ms until all are back
}

func (a answer) result() Result {
	retry, reset := microseconds(max(0, a.wait)), milliseconds(a.reset)
	if a.again {
		retry = reset
	}
	return Result{a.ok, a.limit, min(max(0, a.left), max(0, a.limit)), retry, reset}
}

// A split hands out the answers to the callers of a request, in their order.
type split struct {
	r    reply
	runs []run
	done int64 // of the first of runs
	left int64 // permits for the next caller
	any  bool  // somebody was granted
}

func newSplit(r reply, runs []run) *split {
	s := &split{r: r, runs: runs, left: r.numbers[2]}
	for i, run := range runs {
		granted, _ := s.verdict(i)
		s.left += granted * run.permits
	}
	return s
}

// verdict says how many of a run are granted, and how long the next one waits.
func (s *split) verdict(i int) (granted, wait int64) {
	if s.r.answers == nil {
		return s.runs[i].size(), 0
	}
	return s.r.answers[2*i], s.r.answers[2*i+1]
}

func (s *split) next() answer {
	granted, wait := s.verdict(0)
	a := answer{ok: s.done < granted, limit: s.r.numbers[1]}
	if a.ok {
		s.left -= s.runs[0].permits
		s.any = true
	} else if a.wait = wait; wait < -1 { // scripts/due.lua
		a.wait, a.again = -wait, true
	}
	a.left, a.reset = s.left, s.r.numbers[3]
	if s.any {
		a.reset = s.r.numbers[4]
	}
	if s.done++; s.done == s.runs[0].size() {
		s.runs, s.done = s.runs[1:], 0
		if s.r.answers != nil {
			s.r.answers = s.r.answers[2:]
		}
	}
	return a
}
