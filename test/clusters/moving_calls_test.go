package clusters_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// A leaving is a slot that can begin to move away from its node.
type leaving struct {
	*testing.T
	node, next *redistest.Server
	slot       int64
	cut        error // what Redis said of a script that was cut short; the library would send it again
}

// elsewhere is an error instead of TRYAGAIN and ASK, after which a call would be made again for seconds.
const elsewhere = "ELSEWHERE"

// client returns a client of the node, which loses replies unless a script was sent often enough.
func (m *leaving) client(copies int) *redis.Client {
	rdb, sent := m.node.Client(m), 0
	rdb.AddHook(Hook(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		_, asks := redis.IsAskError(err)
		switch {
		case asks || redis.IsTryAgainError(err):
			return RedisError(elsewhere)
		case err != nil && strings.Contains(err.Error(), "non local key"):
			m.cut = err
		case err == nil && cmd.Name() == "evalsha":
			if sent++; sent%copies > 0 {
				return io.EOF
			}
		}
		return err
	}))
	return rdb
}

func (m *leaving) moves(args ...any) {
	m.Helper()
	NoError(m, m.node.Admin().Do(m.Context(), append([]any{"CLUSTER", "SETSLOT", m.slot}, args...)...).Err())
}

// leaves returns what a row leaves, and the error of what is behind its bar.
func (m *leaving) leaves(s *server, row string, moving bool) (contents string, err error) {
	m.Helper()
	p, steps := s.starts(row)
	c := p.client(s.user)
	if moving {
		m.moves("MIGRATING", m.next.Admin().ClusterMyID(m.Context()).Val())
	}
	err = p.does(c, steps)
	m.moves("STABLE") // while a slot moves, a command that finds no key is sent on to the other node
	if errors.Is(err, io.EOF) {
		err = nil // it is not sent again
	}
	return p.contents(), err
}

// A script never names a key after it may have removed it. In a slot that is moving, the script would be
// cut short there, and what it had removed would be lost. So each call leaves in such a slot what it leaves
// elsewhere.
func TestNoScriptNamesAKeyItHasRemoved(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.WithArgs("--notify-keyspace-events", "KEA"))
	at := cluster.Node(t, "api")
	m := &leaving{T: t, node: cluster.Servers[at], next: cluster.Servers[(at+1)%masters]}
	m.slot = m.node.Admin().ClusterKeySlot(t.Context(), "api").Val()
	inFI := []rratelimiter.Option{rratelimiter.WithRedisson(FI)}
	for way, s := range map[string]*server{
		"a record for each call": {user: m.client(1)},
		"fI":                     {user: m.client(1), opts: inFI},
		"lost replies":           {user: m.client(2)},
	} {
		s.T, s.look, s.name = t, m.node.Admin(), "api"
		judged := 0
		for name, row := range Rows(callsTable) {
			if hasStep(row, "real") || hasStep(row, "list") {
				continue
			}
			want, err := m.leaves(s, row, false)
			if err != nil {
				continue // it is not for slots
			}
			got, err := m.leaves(s, row, true)
			if err != nil && strings.Contains(err.Error(), elsewhere) && m.cut == nil {
				continue // a key of the call is not there before it
			}
			if judged++; err != nil || m.cut != nil || got != want {
				t.Errorf("%s, %s: %v, %v; it leaves\n%s\nwant\n%s", way, name, err, m.cut, got, want)
			}
			m.cut = nil
		}
		if judged < 30 {
			t.Errorf("%s: only %d calls were judged", way, judged)
		}
	}
}
