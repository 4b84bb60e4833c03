package redistest

import (
	"bufio"
	"net"
	"slices"
	"time"
)

// outlet sends replies to a client, late if the proxy says so. It is used by
// one goroutine.
type outlet struct {
	p      *Proxy
	client net.Conn
	w      *bufio.Writer // only for the goroutine of late once there is one
	late   chan parcel   // nil until the first delay: without delays no goroutine is needed
}

// parcel is a reply and the time when it is due. A parcel without a reply ends the
// connection.
type parcel struct {
	reply []byte
	due   time.Time
}

func newOutlet(p *Proxy, client net.Conn) *outlet {
	return &outlet{p: p, client: client, w: bufio.NewWriterSize(client, linkBuffer)}
}

// send passes a reply on. It ignores a client that has left: up closes the other
// direction then.
func (o *outlet) send(reply []byte) {
	if o.onTime() {
		_, _ = o.w.Write(reply)
		return
	}
	o.post(slices.Clone(reply))
}

// hangUp closes the connection, after the replies sent before.
func (o *outlet) hangUp() {
	if o.onTime() {
		_ = o.w.Flush()
		_ = o.client.Close()
		return
	}
	o.post(nil)
}

// flush sends what is still in the buffer.
func (o *outlet) flush() error {
	if o.late != nil {
		return nil // the goroutine of late flushes
	}
	return o.w.Flush()
}

// end hangs up, and nothing may be sent after it.
func (o *outlet) end() {
	o.hangUp()
	if o.late != nil {
		close(o.late)
	}
}

// onTime reports whether replies may go out at once. After the first delay none
// may: they would overtake the late ones.
func (o *outlet) onTime() bool { return o.late == nil && o.p.delay.Load() == 0 }

// post hands a reply to the goroutine of late. The first reply starts it.
func (o *outlet) post(reply []byte) {
	if o.late == nil {
		_ = o.w.Flush()
		o.late = make(chan parcel, 1024)
		o.p.wg.Go(o.deliver)
	}
	o.late <- parcel{reply, time.Now().Add(time.Duration(o.p.delay.Load()))}
}

// deliver sends parcels when they are due.
func (o *outlet) deliver() {
	for next := range o.late {
		if wait := time.Until(next.due); wait > 0 {
			_ = o.w.Flush()
			o.pause(wait)
		}
		if next.reply != nil {
			_, _ = o.w.Write(next.reply)
		}
		if next.reply == nil || len(o.late) == 0 {
			_ = o.w.Flush()
		}
		if next.reply == nil {
			_ = o.client.Close()
		}
	}
}

// pause waits for d or for the end of the test.
func (o *outlet) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-o.p.done:
	}
}
