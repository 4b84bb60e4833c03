package javapeer_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// check returns a function that compares the result of a method.
func check(t *testing.T) func(what string, want any) func(got any, err error) {
	return func(what string, want any) func(any, error) {
		return func(got any, err error) {
			t.Helper()
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, %v; want %v", what, got, err, want)
			}
		}
	}
}

// ok fails the test if a method without a result failed.
func ok(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// each turns the result of a method into what check's functions take.
func each[T any](got T, err error) (any, error) { return got, err }

func TestRates(t *testing.T) {
	p, ctx, is := realPeer(t), soon(t), check(t)
	client, _ := connect(t, p, redistest.Start(t).Addr)
	l := p.Limiter(client, "a")

	is("TrySetRate", true)(each(l.TrySetRate(ctx, javapeer.Overall, 5, time.Minute, 0)))
	is("TrySetRate again", false)(each(l.TrySetRate(ctx, javapeer.Overall, 5, time.Minute, time.Hour)))
	is("Config", javapeer.Config{Type: "OVERALL", Rate: 5, Interval: time.Minute})(each(l.Config(ctx)))

	ok(t, "SetRate", l.SetRate(ctx, javapeer.PerClient, 6, time.Second, 0))
	is("Config", javapeer.Config{Type: "PER_CLIENT", Rate: 6, Interval: time.Second})(each(l.Config(ctx)))
	ok(t, "SetRate with keepAlive", l.SetRate(ctx, javapeer.Overall, 6, time.Second, time.Minute))
	ok(t, "Acquire", l.Acquire(ctx, 2))
	r := javapeer.RateArgs{
		Type: javapeer.Overall, Rate: 7, Interval: time.Hour, KeepAlive: time.Hour, KeepState: true,
	}
	ok(t, "SetRateArgs", l.SetRateArgs(ctx, r))
	is("AvailablePermits", int64(5))(each(l.AvailablePermits(ctx)))
	r.Rate, r.Interval, r.KeepAlive = 8, 2*time.Hour, 0
	is("UpdateRate", true)(each(l.UpdateRate(ctx, r)))
	is("Config", javapeer.Config{Type: "OVERALL", Rate: 8, Interval: 2 * time.Hour})(each(l.Config(ctx)))
	none := javapeer.RateArgs{Type: javapeer.Overall, Rate: 1, Interval: 1}
	is("UpdateRate of none", false)(each(p.Limiter(client, "none").UpdateRate(ctx, none)))
}

func TestPermits(t *testing.T) {
	p, ctx, is := realPeer(t), soon(t), check(t)
	client, _ := connect(t, p, redistest.Start(t).URL())
	l := p.Limiter(client, "a")
	is("TrySetRate", true)(each(l.TrySetRate(ctx, javapeer.Overall, 5, time.Hour, 0)))
	is("TryAcquire", true)(each(l.TryAcquire(ctx, 3)))
	ok(t, "Acquire", l.Acquire(ctx, 1))
	is("AvailablePermits", int64(1))(each(l.AvailablePermits(ctx)))
	is("TryAcquireTimeout", false)(each(l.TryAcquireTimeout(ctx, 2, time.Millisecond)))
	ok(t, "Release", l.Release(ctx, 4))
	is("AvailablePermits", int64(5))(each(l.AvailablePermits(ctx)))
}

func TestKeys(t *testing.T) {
	p, ctx, is := realPeer(t), soon(t), check(t)
	server := redistest.Start(t)
	client, _ := connect(t, p, server.Addr,
		javapeer.NamePrefix("pre:"), javapeer.Timeout(time.Second), javapeer.RetryAttempts(1))
	l, b := p.Limiter(client, "a"), p.Limiter(client, "b")

	is("TrySetRate", true)(each(l.TrySetRate(ctx, javapeer.Overall, 5, time.Hour, 0)))
	is("key", int64(1))(each(server.Admin().Exists(ctx, "pre:a").Result()))
	is("Name", "a")(each(l.Name(ctx)))
	is("Exists", true)(each(l.Exists(ctx)))
	ok(t, "Rename", l.Rename(ctx, "b"))
	is("Exists after Rename", false)(each(l.Exists(ctx)))
	is("Unlink", true)(each(b.Unlink(ctx)))
	is("Delete", false)(each(b.Delete(ctx)))
}

func TestExpiry(t *testing.T) {
	p, ctx, is := realPeer(t), soon(t), check(t)
	client, _ := connect(t, p, redistest.Start(t).Addr)
	l := p.Limiter(client, "a")
	is("Expire of none", false)(each(l.Expire(ctx, time.Hour)))
	is("RemainTimeToLive of none", int64(-2))(each(l.RemainTimeToLive(ctx)))
	is("TrySetRate", true)(each(l.TrySetRate(ctx, javapeer.Overall, 5, time.Hour, 0)))
	is("ExpireTime of never", int64(-1))(each(l.ExpireTime(ctx)))

	is("ExpireIfSet", false)(each(l.ExpireIfSet(ctx, time.Hour)))
	is("ExpireIfNotSet", true)(each(l.ExpireIfNotSet(ctx, time.Hour)))
	is("ExpireIfGreater", false)(each(l.ExpireIfGreater(ctx, time.Minute)))
	is("ExpireIfLess", true)(each(l.ExpireIfLess(ctx, time.Minute)))
	is("Expire", true)(each(l.Expire(ctx, time.Hour)))
	is("ClearExpire", true)(each(l.ClearExpire(ctx)))
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	is("ExpireAt", true)(each(l.ExpireAt(ctx, at)))
	is("ExpireTime", at.UnixMilli())(each(l.ExpireTime(ctx)))
}

func TestListener(t *testing.T) {
	p, ctx := realPeer(t), soon(t)
	client, _ := connect(t, p, redistest.Start(t, "--notify-keyspace-events", "Exg").Addr)
	l, other := p.Limiter(client, "a"), p.Limiter(client, "b")
	id, err := l.AddListener(ctx, "deleted")
	ok(t, "AddListener", err)
	removed, err := other.AddListener(ctx, "expired")
	ok(t, "AddListener", err)
	ok(t, "RemoveListener", other.RemoveListener(ctx, removed))
	if id == removed {
		t.Errorf("both listeners are %d", id)
	}

	_, err = l.TrySetRate(ctx, javapeer.Overall, 5, time.Hour, 0)
	ok(t, "TrySetRate", err)
	_, err = l.Delete(ctx)
	ok(t, "Delete", err)
	select {
	case got := <-p.Events():
		if want := (javapeer.Event{Kind: "deleted", Client: client, Name: "a"}); got != want {
			t.Errorf("event %+v, want %+v", got, want)
		}
	case <-ctx.Done():
		t.Error("no event")
	}
}

func TestHammer(t *testing.T) {
	p, ctx := realPeer(t), soon(t)
	server := redistest.Start(t)
	a, _ := connect(t, p, server.Addr)
	b, _ := connect(t, p, server.Addr)
	l := p.Limiter(a, "a")
	_, err := l.TrySetRate(ctx, javapeer.PerClient, 5, time.Hour, 0)
	ok(t, "TrySetRate", err)

	for what, o := range map[string]javapeer.HammerOptions{
		"with pauses":   {Permits: 2, Threads: 4, Clients: []string{a, b}},
		"spinning":      {Pause: -1, Clients: []string{a, b}},
		"with timeouts": {Timeout: time.Millisecond},
	} {
		ok(t, "SetRate", l.SetRate(ctx, javapeer.PerClient, 5, time.Hour, 0))
		before := time.Now().Truncate(time.Millisecond)
		o.Duration = 100 * time.Millisecond
		grants, calls, err := l.Hammer(ctx, o)
		if err != nil || len(grants) == 0 || calls <= int64(len(grants)) {
			t.Errorf("%s: %d grants of %d calls, %v", what, len(grants), calls, err)
		}
		for _, g := range grants {
			if g[0].Before(before) || g[1].Before(g[0]) || g[1].After(time.Now()) {
				t.Errorf("%s: grant at %v, asked since %v", what, g, before)
			}
		}
	}
}

func TestLoop(t *testing.T) {
	p, ctx := realPeer(t), soon(t)
	client, _ := connect(t, p, redistest.Start(t).Addr)
	l := p.Limiter(client, "a")
	_, err := l.TrySetRate(ctx, javapeer.Overall, 5, time.Hour, 0)
	ok(t, "TrySetRate", err)

	got, err := l.Loop(ctx, javapeer.LoopOptions{Count: 20, Threads: 2})
	if err != nil || got.Calls != 20 || got.Granted != 5 || got.Seconds <= 0 || got.PerSecond <= 0 ||
		got.P50us <= 0 || got.P99us < got.P50us || got.P999us < got.P99us {
		t.Errorf("Loop with a count: %+v, %v", got, err)
	}
	o := javapeer.LoopOptions{
		Duration: 20 * time.Millisecond, Warmup: 20 * time.Millisecond, Clients: []string{client},
	}
	if got, err = l.Loop(ctx, o); err != nil || got.Calls == 0 || got.Granted != 0 {
		t.Errorf("Loop for a time: %+v, %v", got, err)
	}
}
