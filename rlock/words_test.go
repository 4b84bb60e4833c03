package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A play is a spec of a lock in words. Its steps are separated by "; ". A caller is a letter, which is its
// process, and a number: "a1 locks; b1 waits; a1 unlocks; b1 has". "a1@2" is a caller of the lock beside it
// whose name ends with 2. A step "STEP ! ERROR" has to fail with that error. An owner java:N is one that the
// spec plays.
//
// LOCK, TOKEN, QUEUE, SCORES and CHANNEL are keys, and a caller is its owner, in the words of a command.
// A range FROM..TO is one of numbers or times.
type play struct {
	*env
	of       kind
	messages map[string]func() string // by owner
	now      time.Time                // of the last step "now"
	before   int64                    // commands that were sent before that
	proxy    *redistest.Proxy         // of the processes o and p
	silence  time.Duration            // how long these wait for a reply
	release  func()                   // releases what is held
	rest     chan struct{}            // what the server keeps back until it is closed
	peer     *javapeer.Peer           // in which the processes are that javas names by their letters
	javas    string

	mu        sync.Mutex // guards what follows
	processes map[string]*process
	callers   map[string]*caller
	going     map[string]<-chan error // the results of steps that go on
}

func newPlay(s *env, of kind) *play {
	p := &play{env: s, of: of, messages: map[string]func() string{}, now: time.Now(), silence: patience,
		processes: map[string]*process{}, callers: map[string]*caller{}, going: map[string]<-chan error{}}
	p.knows()
	return p
}

// knows has the server know the scripts, so that they can be counted. It does so in the slot of the lock.
func (p *play) knows() {
	if p.mini != nil {
		return
	}
	locks, end := open(p, p.look)
	lock := p.of(locks, p.name+"first")
	if !strings.Contains(p.name, "{") {
		lock = p.of(locks, "{"+p.name+"}first")
	}
	NoError(p, errors.Join(pass(within(p), lock), end()))
}

var (
	// onlyOnRedis are steps of which miniredis knows nothing, and noTime those that need fake time.
	onlyOnRedis = regexp.MustCompile(`\b[op]\d|\bran |restart|CONFIG|CLIENT|ACL|WRONGTYPE`)
	noTime      = regexp.MustCompile(`sleep|after|place|deny|rest|freeze|fail |slow|held|in \d`)
)

// tell tells specs in fake time. A spec in which no time passes is also told to a real server.
func tell(t *testing.T, of kind, specs map[string]string) {
	t.Helper()
	for spec, steps := range specs {
		plays := func(s *env) { NoError(s, newPlay(s, of).tells(steps)) }
		t.Run(spec, func(t *testing.T) {
			switch {
			case strings.Contains(steps, "clock "):
				plays(onClock(t))
			case onlyOnRedis.MatchString(steps):
				plays(onRedis(t))
			case noTime.MatchString(steps):
				inBubble(t, plays)
			default:
				onBoth(t, plays)
			}
		})
	}
}

func tellKinds(t *testing.T, specs map[string]string) {
	t.Helper()
	eachKind(t, func(t *testing.T, of kind) { tell(t, of, specs) })
}

// tells does the steps of a spec until one of them fails.
func (p *play) tells(steps string) error {
	for step := range strings.SplitSeq(strings.TrimSuffix(steps, "; "), "; ") {
		text, want, fails := strings.Cut(step, " ! ")
		ctx, cancel := context.WithTimeout(p.Context(), p.longest())
		p.Cleanup(cancel) // the step may go on
		err := p.does(ctx, strings.Fields(text))
		if fails {
			err = wanted(err, strings.Fields(p.word(want)))
		}
		if err != nil {
			return fmt.Errorf("%q: %w", step, err)
		}
	}
	return nil
}

// wanted returns an error unless err is each of these: a sentinel, or a part of the text.
func wanted(err error, all []string) error {
	for _, want := range all {
		is := err != nil && strings.Contains(err.Error(), want)
		if named := sentinels[want]; named != nil {
			is = errors.Is(err, named)
		}
		if want == "ErrLost" {
			is = is && errors.Is(err, rlock.ErrNotHeld)
		} else if want == "ErrNotHeld" {
			is = is && !errors.Is(err, rlock.ErrLost)
		}
		if !is {
			return fmt.Errorf("%w, want %s", err, want)
		}
	}
	return nil
}

var sentinels = map[string]error{
	"ErrLost": rlock.ErrLost, "ErrNotHeld": rlock.ErrNotHeld, "ErrClosed": rratelimiter.ErrClosed,
	"ErrNoAnswer": rratelimiter.ErrNoAnswer, "ErrBadState": rratelimiter.ErrBadState,
	"Canceled": context.Canceled, "DeadlineExceeded": context.DeadlineExceeded,
}

// does does a step: that of a caller begins with its name. The first words may say when or how.
func (p *play) does(ctx context.Context, words []string) error {
	rest := words[1:]
	switch words[0] {
	case "within":
		ctx, cancel := context.WithTimeout(ctx, p.span(rest, 0))
		defer cancel()
		return p.does(ctx, rest[1:])
	case "cancels": // its context, when a time has passed
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(p.span(rest, 0), cancel)
		return p.does(ctx, rest[1:])
	case "endless":
		return p.does(context.Background(), rest)
	case "in":
		time.AfterFunc(p.span(rest, 0), func() { _ = p.does(ctx, rest[1:]) })
		return nil
	case "go":
		p.goes(ctx, rest)
		return nil
	case "held":
		return p.holds(ctx, rest)
	case "copied": // the second copy overtakes the first
		if err := p.holds(ctx, rest); err != nil {
			return err
		}
		p.proxy.Cut()
		return p.done(ctx, rest)
	case "lose":
		return p.loses(ctx, rest[0], rest[1:])
	}
	return p.acts(ctx, words[0], rest)
}

func (p *play) acts(ctx context.Context, who string, rest []string) error {
	if do := steps[who]; do != nil {
		return do(p, ctx, rest)
	}
	c := p.caller(who)
	if c == nil || len(rest) == 0 || callerSteps[rest[0]] == nil {
		return errors.New("no such step")
	}
	return callerSteps[rest[0]](c, ctx, rest[1:])
}

// goes begins a step that may not end soon. "done NAME" has its result.
func (p *play) goes(ctx context.Context, words []string) {
	name := words[len(words)-1] // close a
	if i := slices.IndexFunc(words, func(word string) bool { return p.caller(word) != nil }); i >= 0 {
		name = words[i]
	}
	p.going[name] = async(func() error { return p.does(ctx, words) })
	p.settle()
}

// done returns the result of a step that goes on.
func (p *play) done(_ context.Context, words []string) error {
	for _, word := range words {
		if result := p.going[word]; result != nil {
			delete(p.going, word)
			select {
			case err := <-result:
				return err
			case <-time.After(p.longest()):
				return errors.New("it goes on for ever")
			}
		}
	}
	return errors.New("no such step")
}

// holds begins a step whose next script is held on its way until "late".
func (p *play) holds(ctx context.Context, words []string) error {
	i := slices.IndexFunc(words, func(word string) bool { return p.caller(word) != nil })
	switch words[i][0] {
	case 'o', 'p':
		before := p.proxy.Held()
		p.release = p.proxy.HoldNext(1, IsScript)
		p.goes(ctx, words)
		return p.soon("a request on its way", func() error { return equal("held", p.proxy.Held(), before+1) })
	}
	l, gate := &p.process(words[i]).line, make(chan struct{})
	p.release = func() { close(gate) }
	_ = l.sets(func() { l.next = gate })
	p.goes(ctx, words)
	return nil
}

// loses does a step whose next script is lost in a way: its reply, half of that, or the request, which
// arrives late or never. A client that sends requests again does not notice.
func (p *play) loses(ctx context.Context, way string, words []string) error {
	var err error
	switch p.process(words[0]); way {
	case "reply":
		p.proxy.SwallowReply(1)
		err = p.does(ctx, words)
	case "half":
		p.proxy.TearReply(1)
		err = p.does(ctx, words)
	default:
		err = p.does(ctx, append([]string{"copied"}, words...))
		if way == "late" {
			_ = p.arrives(ctx, nil)
		}
	}
	if words[0][0] == 'o' {
		return wanted(err, []string{"ErrNoAnswer"})
	}
	return err
}

// kind returns the kind of the lock, as Java names it.
func (p *play) kind() javapeer.LockKind {
	switch p.of(p.locks, p.name).(type) {
	case *rlock.FencedLock:
		return javapeer.Fenced
	case *rlock.FairLock:
		return javapeer.Fair
	}
	return javapeer.Reentrant
}

func (p *play) fenced() bool { return p.kind() == javapeer.Fenced }

// settle waits until all goroutines of a bubble wait.
func (p *play) settle() {
	if p.mini != nil {
		synctest.Wait()
	}
}

// longest bounds a wait. In a bubble it may take an hour.
func (p *play) longest() time.Duration {
	if p.mini != nil {
		return time.Hour
	}
	return p.patience
}

// sent returns how many commands all processes have sent.
func (p *play) sent() (n int64) {
	for _, c := range p.processes {
		n += c.sent.Load()
	}
	return n
}

func (p *play) waiting() []string { return p.look.LRange(p.Context(), p.keys.Queue, 0, -1).Val() }

// listeners returns how many clients listen to a channel on the server, and to a shard channel of that name.
func (p *play) listeners(channel string) (plain, shard int64) {
	plain = p.look.PubSubNumSub(p.Context(), channel).Val()[channel]
	return plain, p.look.PubSubShardNumSub(p.Context(), channel).Val()[channel] // none on miniredis
}

// left returns how long the place of an owner lasts.
func (p *play) left(owner string) time.Duration {
	score := p.look.ZScore(p.Context(), p.keys.Timeout, owner).Val()
	return time.Until(time.UnixMilli(int64(score)))
}

// word returns what a word of a command stands for.
func (p *play) word(word string) string {
	p.mu.Lock()
	c := p.callers[word]
	p.mu.Unlock()
	if c != nil {
		return c.owner
	}
	if name, ok := strings.CutPrefix(word, "CHANNEL:"); ok {
		return p.keys.Channel + ":" + p.word(name)
	}
	return strings.NewReplacer("LOCK", p.name, "QUEUE", p.keys.Queue, "SCORES", p.keys.Timeout,
		"CHANNEL", p.keys.Channel, "TOKEN", p.keys.Token).Replace(word)
}

// number reads a number, or a time in nanoseconds.
func (p *play) number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err == nil {
		return n
	}
	return int64(must(time.ParseDuration(word))(p))
}

// span reads a time. A word that is not there is 0.
func (p *play) span(words []string, i int) time.Duration {
	if i >= len(words) {
		return 0
	}
	return time.Duration(p.number(words[i]))
}

// is expects a number within a range.
func (p *play) is(what string, n int64, word string) error {
	from, to, isRange := strings.Cut(word, "..")
	if !isRange {
		to = from
	}
	if n < p.number(from) || n > p.number(to) {
		return fmt.Errorf("%s %d (%v)", what, n, time.Duration(n))
	}
	return nil
}
