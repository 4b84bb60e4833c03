package main

import (
	"strings"
	"testing"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Changes work on a cluster.
func TestChangesOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	steps(t, "redis+cluster://"+cluster.Addrs[0],
		step{"set {a}1 5 1h", 0, "set", ""},
		step{"acquire {a}1", 0, "granted", ""},
		step{"rename {a}1 {a}2", 0, "renamed", ""},
		step{"release {a}2 1", 0, "given back", ""},
		step{"repair {a}2", 0, "the value was right", ""},
		step{"try-set b 5 1h", 0, "set", ""},
		step{"update b 6 1h", 0, "set", ""},
		step{"delete {a}2 b --yes", 0, "deleted", ""},
	)
}

// Looking works on a cluster, and a node of it that is taken for a single server says what to do.
func TestLookingAtACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	all := "redis+cluster://" + strings.Join(cluster.Addrs, ",")
	moved, names := 0, []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		steps(t, all, step{"set " + name + " 5 1h --per-client", 0, "set", ""},
			step{"acquire -n 2 --id me " + name, 0, "granted", ""},
			step{"inspect " + name, 0, "Client me", ""})
		code, _, stderr := on(t, cluster.Addrs[0], "inspect "+name)
		if code == exitError && strings.Contains(stderr, "use --redis redis+cluster://") {
			moved++
		} else if code != 0 {
			t.Errorf("%s on one server: %d, %s", name, code, stderr)
		}
	}
	if moved == 0 {
		t.Error("all limiters are on the first server")
	}
	if _, stdout, _ := on(t, all, "list"); strings.Count(stdout, "\n") != 7 {
		t.Errorf("list:\n%s", stdout)
	}
	code, stdout, stderr := on(t, all, "watch --count 1 "+strings.Join(names, " "))
	const want = ` client "me" remaining 3 of 5, outstanding 2`
	if code != 0 || stderr != "" || strings.Count(stdout, want) != len(names) {
		t.Errorf("watch: code %d, printed\n%s\n%s", code, stdout, stderr)
	}
}
