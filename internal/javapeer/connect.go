package javapeer

import (
	"context"
	"strings"
	"time"
)

// A ConnectOption is an option of Connect. The defaults are Redisson's.
type ConnectOption func(args)

// NamePrefix makes the instance keep the object called name under prefix + name
// (a NameMapper).
func NamePrefix(prefix string) ConnectOption {
	return func(a args) { a["namePrefix"] = prefix }
}

// Timeout sets how long the instance waits for a reply of Redis. The default is
// 3 s.
func Timeout(d time.Duration) ConnectOption {
	return func(a args) { a["timeout"] = d.Milliseconds() }
}

// RetryAttempts sets how often the instance sends a command again.
func RetryAttempts(n int) ConnectOption {
	return func(a args) { a["retryAttempts"] = n }
}

// Cluster connects the instance to the cluster with these nodes, and Connect does
// not use its address. The default is a single server.
func Cluster(addresses ...string) ConnectOption {
	return func(a args) { a["cluster"] = urls(addresses) }
}

// Sentinels connects the instance to the master that these sentinels name, and
// Connect does not use its address. The default is a single server.
func Sentinels(master string, addresses ...string) ConnectOption {
	return func(a args) { a["sentinels"], a["master"] = urls(addresses), master }
}

// urls returns addresses in the form that Redisson reads.
func urls(addresses []string) []string {
	all := make([]string, len(addresses))
	for i, address := range addresses {
		all[i] = url(address)
	}
	return all
}

// PingInterval sets how often the instance checks whether a connection is alive.
// The default is 30 s.
func PingInterval(d time.Duration) ConnectOption {
	return func(a args) { a["pingInterval"] = d.Milliseconds() }
}

// ScanInterval sets how often the instance asks a cluster or sentinels for changes.
// The defaults are 5 s and 1 s.
func ScanInterval(d time.Duration) ConnectOption {
	return func(a args) { a["scanInterval"] = d.Milliseconds() }
}

// Connect creates a Redisson instance on the Redis at address, host:port or a
// URL. The peer knows the instance as client. Connect returns its id, which is in
// the keys of PER_CLIENT limiters, and in the owners of locks.
func (p *Peer) Connect(
	ctx context.Context, client, address string, opts ...ConnectOption,
) (id string, err error) {
	a := args{"client": client, "address": url(address)}
	for _, opt := range opts {
		opt(a)
	}
	return call[string](ctx, p, "connect", a)
}

// Disconnect shuts an instance down. Calls that wait for permits never return.
func (p *Peer) Disconnect(ctx context.Context, client string) error {
	_, err := call[any](ctx, p, "disconnect", args{"client": client})
	return err
}

// url returns an address in the form that Redisson reads.
func url(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "redis://" + address
}
