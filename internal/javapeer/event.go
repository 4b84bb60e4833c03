package javapeer

// maxEvents is how many events are kept for a reader: more than any test causes
// before it reads them.
const maxEvents = 1024

// Event is what a listener received (Limiter.AddListener).
type Event struct {
	Kind   string // "expired" or "deleted"
	Client string // the instance with the listener
	Name   string // of the limiter, as in Redis
}

// Events returns the channel with the events of all listeners. It is closed when
// the peer ends. Without a reader 1024 events are kept, and later ones are lost:
// answers to calls come the same way and must not wait for a reader.
func (p *Peer) Events() <-chan Event { return p.events }

func (p *Peer) report(e Event) {
	select {
	case p.events <- e:
	default:
	}
}
