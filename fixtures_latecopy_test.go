package rratelimiter_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

// A postman keeps a copy of each request that is sent, and delivers none of those
// that it is told to lose: they are on their way, and may come late.
type postman struct {
	n      *line
	copies [][]any
	loses  int
}

func (p *postman) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *postman) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (p *postman) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		p.copies = append(p.copies, slices.Clone(cmd.Args()))
		if p.loses > 0 {
			p.loses--
			return io.EOF
		}
		return next(ctx, cmd)
	}
}

// Where a request has its session, its number, and the type.
const (
	atHash, atSession, atNumber = 3, 7, 8
)

// A desk is one limiter of which a request comes late.
type desk struct {
	*postman
	l, other *limiter // the Client whose request it is, and another one
	late     []any    // its first copy
}

// asks has a request lose its first copies, and answers what its caller is told.
func (d *desk) asks(copies int, ask func(l *limiter) error) error {
	d.copies, d.loses = nil, copies
	err := ask(d.l)
	d.late = d.copies[0]
	return err
}

// number is that of the request.
func (d *desk) number() int64 {
	n, err := strconv.ParseInt(d.late[atNumber].(string), 10, 64)
	d.n.want(err)
	return n
}

// state is all that Redis has of a limiter, but the sessions of others: its
// session with the number by that of the late copy, and times by the clock;
// records and value.
func (d *desk) state(name string) string {
	ctx, start := context.Background(), d.n.now
	session := "none"
	if text := d.n.look.HGet(ctx, name, d.late[atSession].(string)).Val(); text != "" {
		var at, number, amount, where int64
		if n, err := fmt.Sscanf(text, "%d %d %d %d", &number, &at, &amount, &where); n != 4 || err != nil || strings.Count(text, " ") != 3 {
			d.n.Fatalf("session %q", text)
		}
		session = fmt.Sprintf("%+d: %d at %+d", number-d.number(), amount, where-start)
		if where == 0 { // no record is of that time
			session = fmt.Sprintf("%+d: %d", number-d.number(), amount)
		}
	}
	var records []int64
	for _, z := range d.n.look.ZRangeWithScores(ctx, "{"+name+"}:permits", 0, -1).Val() {
		n, err := rratelimiter.RecordPermits(z.Member.(string))
		d.n.want(err)
		records = append(records, n)
	}
	slices.Sort(records) // those of one ms are in no order
	return fmt.Sprintf("%s; %v; %s", session, records, d.n.look.Get(ctx, "{"+name+"}:value").Val())
}

// out is what others than the other Client have.
func (d *desk) out() int64 { return sum(d.l.records(d.l.permits())) }

// deleted removes the limiter.
func (d *desk) deleted() {
	_, err := d.other.Delete(context.Background())
	d.n.want(err)
}

// withdrawn waits until what may have been granted is taken back in the background.
func (d *desk) withdrawn() {
	if d.late[atNumber+2] == "" { // a release is not
		return
	}
	until(d.n.T, func() bool { return strings.HasPrefix(d.state(d.l.Name()), "+1") })
}

// passes lets a time go by in which other Clients use the limiter.
func (d *desk) passes(by time.Duration, clients int) {
	d.n.now += by.Milliseconds()
	for range clients {
		c := d.n.somebodyElse()
		c.takes(1)
		c.gives(1)
	}
}

// dumps is what Redis has of the limiter, by its old and new name, to the byte.
func (d *desk) dumps() string {
	var all []any
	for _, name := range []string{d.late[atHash].(string), d.l.Name()} {
		all = append(all, d.n.look.HGetAll(context.Background(), name).Val(), d.n.look.Get(context.Background(), "{"+name+"}:value").Val(),
			d.n.look.ZRangeWithScores(context.Background(), "{"+name+"}:permits", 0, -1).Val())
	}
	return fmt.Sprintf("%q", all)
}
