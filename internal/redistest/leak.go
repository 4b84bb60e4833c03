package redistest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/gomega/gleak"
)

// leakPatience is how long goroutines may take to end after the last test.
const leakPatience = 15 * time.Second

// atOnce is how many tests run at a time, of those that call Parallel. They mostly wait, so
// the processors do not matter.
const atOnce = 4

// VerifyNoLeaks is all that a TestMain needs: it runs the tests of m, fails if they
// leave goroutines behind, and exits. Four tests that call Parallel run at a time, unless
// the flag -parallel says how many.
func VerifyNoLeaks(m interface{ Run() int }) {
	if !flag.Parsed() { // this sets the default, and Run reads the flags
		_ = flag.Set("test.parallel", strconv.Itoa(atOnce))
	}
	before := gleak.Goroutines()
	if code := m.Run(); code != 0 { // a test that failed may leave goroutines
		os.Exit(code)
	}
	// Goroutines of a closed client end a little later.
	if err := poll(leakPatience, func() error { return leaked(before) }); err != nil {
		fmt.Fprintf(os.Stderr, "FAIL: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// leaked returns an error that lists the goroutines that did not exist before.
func leaked(before []gleak.Goroutine) error {
	matcher := gleak.HaveLeaked(before)
	now := slices.DeleteFunc(gleak.Goroutines(), byGoRedis)
	if more, err := matcher.Match(now); !more || err != nil {
		return err
	}
	return fmt.Errorf("redistest: goroutines left behind. %s", matcher.NegatedFailureMessage(now))
}

// byGoRedis reports whether a goroutine is one that go-redis leaves behind: Close of a
// client of NewFailoverClusterClient does not end the one that listens to a sentinel,
// nor the two of its PubSub.Channel. The library itself does not use such a channel.
func byGoRedis(g gleak.Goroutine) bool {
	for _, creator := range []string{"(*sentinelFailover).setSentinel", "(*channel).initHealthCheck",
		"(*channel).initMsgChan"} {
		if strings.HasSuffix(g.CreatorFunction, creator) {
			return true
		}
	}
	return false
}
