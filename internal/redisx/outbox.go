package redisx

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pipelinesAtOnce is how many pipelines to one server are under way. While the
	// server works on one of them, the replies of the other are read and the next
	// one is written.
	pipelinesAtOnce = 2

	// A pipeline that takes longer than overdueAfter holds back no other: a slow script
	// or a hanging connection must not stop other limiters.
	overdueAfter = 5 * time.Millisecond

	// maxUnanswered is how many pipelines to one server may lack a reply, overdue ones
	// included. While a server is silent, commands beyond them wait here, where their
	// callers can take them back, and not for a connection. But the server may be well and
	// only its connections hang, so a single command is sent every probeAfter, and the next
	// one as soon as that has its reply.
	maxUnanswered = 10
	probeAfter    = 100 * time.Millisecond

	// maxPipeline bounds how long the first reply of a pipeline waits for the last.
	maxPipeline = 64

	// maxServers bounds the outboxes: a cluster or a Ring whose nodes come and go must not leave one for
	// each.
	maxServers = 1000

	// leastToSend is the time that a caller must have left to send commands of other
	// callers at its own deadline.
	leastToSend = 100 * time.Millisecond
)

// outboxes let commands of different callers travel together. Commands that are ready
// while earlier ones are under way go out in one pipeline, so that a system call, a reply
// and a wake-up serve many callers. A command that finds the server idle is
// sent at once, by its own caller.
//
// Each server has its own outbox, because a cluster client's pipeline to two servers
// would be as slow as the slower one.
type outboxes struct {
	rdb redis.UniversalClient
	// server returns the client of the server that has a key; nil for a client of
	// one server.
	server func(ctx context.Context, key string) (*redis.Client, error)

	single outbox

	mu       sync.RWMutex
	byServer map[*redis.Client]*outbox // guarded by mu
}

// newOutboxes returns the outboxes of a client, nil if it is not one of go-redis:
// a client that embeds one may have a Process of its own, which a pipeline would
// bypass.
func newOutboxes(rdb redis.UniversalClient, readTimeout time.Duration) *outboxes {
	all := &outboxes{
		rdb: rdb, single: outbox{longest: readTimeout}, byServer: map[*redis.Client]*outbox{},
	}
	switch rdb := rdb.(type) {
	case *redis.Client:
	case *redis.ClusterClient:
		all.server = rdb.MasterForKey
	case *redis.Ring:
		all.server = func(_ context.Context, key string) (*redis.Client, error) {
			return rdb.GetShardClientForKey(key)
		}
	default:
		return nil
	}
	return all
}

// of returns the outbox of the server that has a key, nil if that is unknown.
func (all *outboxes) of(ctx context.Context, key string) *outbox {
	if all.server == nil {
		return &all.single
	}
	server, err := all.server(ctx, key)
	if err != nil {
		return nil
	}
	all.mu.RLock()
	o := all.byServer[server]
	all.mu.RUnlock()
	if o == nil {
		o = all.added(server)
	}
	return o
}

// added returns the outbox of a server, which it makes if there is none.
func (all *outboxes) added(server *redis.Client) *outbox {
	all.mu.Lock()
	defer all.mu.Unlock()
	o := all.byServer[server]
	if o == nil {
		if len(all.byServer) >= maxServers {
			clear(all.byServer) // those in use are made again
		}
		o = &outbox{longest: all.single.longest}
		all.byServer[server] = o
	}
	return o
}

// An outbox has the commands that wait for one server.
type outbox struct {
	longest time.Duration // that a command waits whose caller has no deadline; below 1 for ever

	// spare has unused *outgoing. It belongs to the outbox, because a channel may not
	// leave the bubble of a test (testing/synctest).
	spare sync.Pool

	mu         sync.Mutex
	underWay   [pipelinesAtOnce]pipeline // guarded by mu, as all below
	unanswered int                       // pipelines that lack a reply, also overdue ones
	began      time.Time                 // the last pipeline
	waiting    []*outgoing               // in order of arrival
	sender     *outgoing                 // one of waiting: its caller has to send
	timer      *time.Timer               // for overdue pipelines
	timed      bool                      // the timer runs
}

// A pipeline is what one caller has sent: its own command, or several.
type pipeline struct {
	number int64 // counts those in the same place; a pipeline that is overdue has lost its place
	busy   bool
	began  time.Time
}

// A place is that of a pipeline under way.
type place struct {
	index  int
	number int64
}

// An outgoing is a command that waits to be sent.
type outgoing struct {
	ctx   context.Context
	cmd   *command
	since time.Time // when it began to wait
	taken bool      // it is being sent; guarded by the outbox's mu

	// ready gets a place if the caller is to send what is waiting, and a zero one
	// when the command has its reply. Capacity one.
	ready chan place
}

// newOutgoing returns a new or reused outgoing. Its channel is expensive.
func (o *outbox) newOutgoing(ctx context.Context, cmd *command) *outgoing {
	out, ok := o.spare.Get().(*outgoing)
	if !ok {
		out = &outgoing{ready: make(chan place, 1)}
	}
	out.ctx, out.cmd, out.since, out.taken = ctx, cmd, time.Now(), false
	return out
}

// send sends a command, alone or with others, and returns its error.
func (r *Runner) send(ctx context.Context, o *outbox, cmd *command) error {
	o.mu.Lock()
	if len(o.waiting) == 0 {
		if at, free := o.begin(); free {
			o.mu.Unlock()
			defer o.end(at)
			return r.rdb.Process(ctx, cmd)
		}
	}
	out := o.newOutgoing(ctx, cmd)
	o.waiting = append(o.waiting, out)
	o.appoint()
	if !o.timed {
		o.timed = true
		o.startTimer()
	}
	o.mu.Unlock()
	var at place
	select {
	case at = <-out.ready:
	case <-ctx.Done():
		if o.remove(out) {
			return ctx.Err()
		}
		if _, dated := ctx.Deadline(); dated && r.KeepsDeadlines {
			cmd.sent.Store(true)
			return ctx.Err()
		}
		at = <-out.ready
	}
	err := cmd.Err()
	if at.number != 0 {
		err = r.sendAll(o, at, out)
	}
	if err != nil {
		err = r.afterPipeline(ctx, cmd, err)
	}
	out.ctx, out.cmd = nil, nil
	o.spare.Put(out)
	return err
}

// errCut says that the caller that sent a pipeline ended it for all, by its deadline
// or by the panic of a hook.
var errCut = errors.New("another caller ended the pipeline")

// errNotSent says that a command has waited for as long as an attempt may take.
var errNotSent = errors.New("earlier requests are unanswered")

// afterPipeline returns the error of a command that was sent in a pipeline, and sends it
// alone if a redirection was all that the pipeline got.
func (r *Runner) afterPipeline(ctx context.Context, cmd *command, err error) error {
	if moved, _, _ := redirected(err); moved && r.servers != nil {
		cmd.SetErr(nil) // a pipeline follows a redirection only a few times
		return r.rdb.Process(ctx, cmd)
	}
	return err
}

// sendAll sends the command of out, and then the waiting commands. It returns the
// error of out.
func (r *Runner) sendAll(o *outbox, at place, out *outgoing) error {
	// Only the deadline of this caller ends the pipeline, if go-redis keeps it.
	deadline, dated := out.ctx.Deadline()
	if dated = dated && r.KeepsDeadlines; !dated {
		deadline = time.Time{}
	}
	others := o.take(out, deadline)
	if len(others) == 0 {
		defer o.end(at)
		return r.rdb.Process(out.ctx, out.cmd)
	}
	pipe := r.rdb.Pipeline()
	_ = pipe.Process(out.ctx, out.cmd)
	for _, other := range others {
		_ = pipe.Process(out.ctx, other.cmd)
	}
	// Not the context of this caller, because the commands of other callers must not end when
	// it is cancelled, and belong to other traces.
	ctx := r.Base
	if dated {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	sent := false
	defer func() {
		o.end(at)
		late := dated && !time.Now().Before(deadline)
		for _, other := range others {
			err := other.cmd.Err()
			if panicked := !sent; panicked || late && err != nil && !Answered(err) {
				other.cmd.SetErr(errCut)
			}
			other.ready <- place{}
		}
	}()
	_, _ = pipe.Exec(ctx) // each command keeps its own error
	sent = true
	return out.cmd.Err()
}

// begin takes a place for a pipeline, and reports whether there is one. Guarded by
// mu.
func (o *outbox) begin() (at place, free bool) {
	now := time.Now()
	if o.unanswered >= maxUnanswered && now.Sub(o.began) < probeAfter {
		return place{}, false
	}
	for i := range o.underWay {
		if p := &o.underWay[i]; !p.busy || now.Sub(p.began) > overdueAfter {
			*p = pipeline{p.number + 1, true, now}
			o.began = now
			o.unanswered++
			return place{i, p.number}, true
		}
	}
	return place{}, false
}

// end frees the place of a pipeline, unless that is overdue and has none any more, and lets another caller
// send the next one.
func (o *outbox) end(at place) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unanswered--
	if o.unanswered >= maxUnanswered {
		o.began = time.Time{}
	}
	if p := &o.underWay[at.index]; p.number == at.number {
		p.busy = false
	}
	o.appoint()
}

// appoint makes the first waiting caller send the waiting commands, if there is a
// place. Guarded by mu.
func (o *outbox) appoint() {
	if o.sender != nil || len(o.waiting) == 0 {
		return
	}
	if at, free := o.begin(); free {
		o.sender = o.waiting[0]
		o.sender.ready <- at
	}
}

// take removes the commands of a pipeline from the outbox: the sender's own, and waiting ones, which it
// returns. If a deadline may end the pipeline, it takes only commands that may be sent again. If commands
// remain, another caller becomes the sender.
func (o *outbox) take(sender *outgoing, deadline time.Time) (taken []*outgoing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sender = nil
	o.drop(sender)
	n, dated := 0, !deadline.IsZero()
	if o.unanswered <= maxUnanswered && (!dated || time.Until(deadline) > leastToSend) {
		n = min(len(o.waiting), maxPipeline-1)
	}
	taken = make([]*outgoing, 0, n)
	left := slices.DeleteFunc(o.waiting[:n], func(out *outgoing) bool {
		if out.taken = !dated || out.cmd.repeatable; out.taken {
			taken = append(taken, out)
		}
		return out.taken
	})
	o.waiting = slices.Delete(o.waiting, len(left), n)
	o.appoint()
	return taken
}

// remove removes a command whose caller leaves, and reports whether it was still waiting.
func (o *outbox) remove(out *outgoing) bool {
	o.mu.Lock()
	waits, sends := !out.taken, o.sender == out
	if waits {
		o.drop(out)
	}
	if sends {
		o.sender = nil
	}
	o.mu.Unlock()
	if sends { // its place goes to the next caller
		o.end(<-out.ready)
	}
	return waits
}

// drop takes a command off the waiting ones. Guarded by mu.
func (o *outbox) drop(out *outgoing) {
	if i := slices.Index(o.waiting, out); i >= 0 {
		out.taken = true
		o.waiting = slices.Delete(o.waiting, i, i+1)
	}
}

// startTimer starts the timer that looks for overdue pipelines. Guarded by mu.
func (o *outbox) startTimer() {
	if o.timer == nil {
		o.timer = time.AfterFunc(overdueAfter, o.look)
	} else {
		o.timer.Reset(overdueAfter)
	}
}

// look lets a caller send the commands that wait behind overdue pipelines. It looks
// again as long as commands are waiting.
func (o *outbox) look() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.appoint()
	o.giveUp()
	if o.timed = len(o.waiting) > 0; o.timed {
		o.startTimer()
	}
}

// giveUp fails the commands that have waited for longest and have no deadline, which uses up one of their
// attempts. Otherwise a silent server would get them one by one, and a caller would wait probeAfter for
// each of them ahead of it. Guarded by mu.
func (o *outbox) giveUp() {
	if o.longest < 1 || len(o.waiting) == 0 || time.Since(o.waiting[0].since) < o.longest {
		return
	}
	o.waiting = slices.DeleteFunc(o.waiting, func(out *outgoing) bool {
		_, dated := out.ctx.Deadline()
		if dated || out == o.sender || time.Since(out.since) < o.longest {
			return false
		}
		out.taken = true
		out.cmd.SetErr(errNotSent)
		out.ready <- place{}
		return true
	})
}
