package javapeer

// maxEvents is how many events wait for whoever reads them.
const maxEvents = 1024

// Event is what a listener heard (Limiter.AddListener).
type Event struct {
	Kind   string // "expired" or "deleted"
	Client string // whose listener
	Name   string // of the limiter, as in Redis
}

// Events returns the channel of what all listeners hear. It is closed when the
// peer ends. Of events that nobody reads 1024 are kept; those after them are
// lost, for the answers to calls come the same way and must not wait.
func (p *Peer) Events() <-chan Event { return p.events }

func (p *Peer) report(e Event) {
	select {
	case p.events <- e:
	default:
	}
}
