package charging_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/wire"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// Where the arguments of a request have the hash, the session and the number.
const (
	atHash, atSession, atNumber = 3, 7, 8
)

// A desk is a limiter of which a request comes late.
type desk struct {
	*Failures
	n        *Limiter
	l, other *Limiter // the Client whose request it is, and another one
	late     []any    // its first copy
}

// asks loses the first copies of a request, and returns the error that its caller gets. They are on
// their way, and may come late.
func (d *desk) asks(copies int, ask func(l *Limiter) error) error {
	d.Sent, d.Errs = nil, slices.Repeat([]error{io.ErrUnexpectedEOF}, copies)
	err := ask(d.l)
	d.late = d.Sent[0]
	return err
}

// number returns the number of the request.
func (d *desk) number() int64 {
	n, err := strconv.ParseInt(d.late[atNumber].(string), 10, 64)
	d.n.Want(err)
	return n
}

// state returns what Redis has of a limiter: the session of the request, the
// permits of the records, and the value. Other sessions are left out.
func (d *desk) state(name string) string {
	ctx := context.Background()
	records := d.l.Records("{" + name + "}:permits")
	slices.Sort(records) // those of one ms are in no order
	return fmt.Sprintf("%s; %v; %s", d.session(name), records, d.n.Look.Get(ctx, "{"+name+"}:value").Val())
}

// session returns the session of the request. It counts numbers from that of the
// late copy, and times from now.
func (d *desk) session(name string) string {
	text := d.n.Look.HGet(context.Background(), name, d.late[atSession].(string)).Val()
	if text == "" {
		return "none"
	}
	var at, number, amount, where int64
	n, err := fmt.Sscanf(text, "%d %d %d %d", &number, &at, &amount, &where)
	if n != 4 || err != nil || strings.Count(text, " ") != 3 {
		d.n.Fatalf("session %q", text)
	}
	if where == 0 { // no record is of that time
		return fmt.Sprintf("%+d: %d", number-d.number(), amount)
	}
	return fmt.Sprintf("%+d: %d at %+d", number-d.number(), amount, where-d.n.Now)
}

// out returns the permits that are out.
func (d *desk) out() int64 { return d.n.Out(d.l.PermitsKey()) }

// deleted removes the limiter.
func (d *desk) deleted() { d.n.Want(Yes(d.other.Delete(context.Background()))) }

// withdrawn waits until what may have been granted was taken back in the background.
func (d *desk) withdrawn() {
	records := d.late[atNumber+2].(string)
	if permits, _ := wire.Permits(records); permits == 0 { // of a release, which is never taken back
		return
	}
	Until(d.n.T, func() bool { return strings.HasPrefix(d.state(d.l.Name()), "+1") })
}

// passes lets time go by, and then other Clients use the limiter.
func (d *desk) passes(by time.Duration, clients int) {
	d.n.Now += by.Milliseconds()
	for range clients {
		c := d.n.Other()
		c.Takes(1)
		c.Gives(1)
	}
}

// dumps returns all that Redis has under the old and the new name of the limiter.
func (d *desk) dumps() string {
	ctx := context.Background()
	var all []any
	for _, name := range []string{d.late[atHash].(string), d.l.Name()} {
		all = append(all, d.n.Look.HGetAll(ctx, name).Val(), d.n.Look.Get(ctx, "{"+name+"}:value").Val(),
			d.n.Look.ZRangeWithScores(ctx, "{"+name+"}:permits", 0, -1).Val())
	}
	return fmt.Sprintf("%q", all)
}
