package redistest_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanEnv) != "" {
		makeOrphan()
	}
	redistest.VerifyNoLeaks(m)
}

// orphanEnv makes the test binary start a server and wait to be killed.
const orphanEnv = "REDISTEST_ORPHAN"

// makeOrphan prints the address of a server, and exits without stopping it if
// it isn't killed before.
func makeOrphan() {
	new(fakeTB).run(func(t redistest.TB) {
		fmt.Println(redistest.Start(t).Addr)
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(1)
	})
}
