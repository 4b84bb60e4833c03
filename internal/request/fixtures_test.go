package request

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/redisx"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(m) }

// newSource returns a Source on rdb, with some changes to the Config of the root package.
func newSource(rdb redis.UniversalClient, changes ...func(*Config)) *Source {
	config := Config{
		ID: "id", MapName: func(name string) string { return name },
		Runner: redisx.NewRunner(rdb), Plain: &wire.Layouts[wire.Bc0I16],
	}
	for _, change := range changes {
		change(&config)
	}
	config.Layout = config.Plain.ForClient()
	return NewSource(config)
}

// limiter returns the limiter called name.
func (s *Source) limiter(name string) *Target {
	l := &Target{}
	l.Init(s, "name", name, nil)
	return l
}

// withClock makes a Source take its time from now, in Unix ms.
func withClock(now *int64) func(*Config) {
	return func(c *Config) { c.Clock = func() time.Time { return time.UnixMilli(*now) } }
}

// setRate sets the rate of a limiter.
func setRate(t *testing.T, l *Target, typ int, permits int64, interval time.Duration) {
	t.Helper()
	change := Change{Rate: Rate{Type: typ, Permits: permits, Interval: interval}}
	if _, err := l.SetRate(t.Context(), change); err != nil {
		t.Fatal(err)
	}
}

// send takes permits as one caller that does not wait.
func send(t *testing.T, l *Target, permits int64) Result {
	t.Helper()
	req := l.Acquire([]Run{{permits, 1}}, nil, Options{Numbers: true})
	reply, err := req.Send(t.Context())
	redistest.NoError(t, err)
	split := req.Split(reply)
	v, err := split.Result(permits)
	redistest.NoError(t, err)
	return v
}
