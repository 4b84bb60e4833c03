package redistest

import (
	"crypto/rand"
	"strconv"
	"strings"
	"sync/atomic"
)

var (
	// nameOfProcess begins the names of this process. Several processes may share a
	// server: `go test ./...` runs one per package.
	nameOfProcess = "rl" + strings.ToLower(rand.Text()[:8])
	names         atomic.Int64
)

// Name returns a name that was never returned before, neither in this process nor,
// thanks to 40 random bits, in another one. It is short and without braces, which
// would turn a part of it into the hash tag of a cluster.
func Name(t TB) string {
	t.Helper()
	return nameOfProcess + "-" + strconv.FormatInt(names.Add(1), 10)
}
