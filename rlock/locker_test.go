package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/rlock"
	. "github.com/redisson-go/rratelimiter/test/fixtures"
)

// states fails the test unless a hold has this count, and none of its methods disagrees.
func states(t *testing.T, when string, h *rlock.Hold, count int64, wantErr error) {
	t.Helper()
	held, err := h.IsHeld(t.Context())
	n, err2 := h.HoldCount(t.Context())
	if held != (count > 0) || n != count || err != nil || err2 != nil {
		t.Errorf("%s: held %v, %v, %d times, %v", when, held, err, n, err2)
	}
	if err := h.Err(); !errors.Is(err, wantErr) || (err == nil) != held {
		t.Errorf("%s: Err is %v, want %v", when, err, wantErr)
	}
	if ended := h.Context().Err() != nil; ended == held {
		t.Errorf("%s: the context has ended: %v", when, ended)
	}
}

// The zero Hold is not held, and asks no Redis.
func TestZeroHold(t *testing.T) {
	var h rlock.Hold
	states(t, "zero", &h, 0, rlock.ErrNotHeld)
	WantErr(t, context.Cause(h.Context()), rlock.ErrNotHeld)
	for _, err := range map[string]error{
		"Unlock": h.Unlock(t.Context()), "Relock": h.Relock(t.Context()),
	} {
		NoError(t, wanted(err, []string{"ErrNotHeld"}))
	}
	if h.Token() != 0 || h.Owner() != "" {
		t.Errorf("token %d, owner %q", h.Token(), h.Owner())
	}
	states(t, "after Unlock", &h, 0, rlock.ErrNotHeld)
}

// A fake is held until its last Unlock, or until it is lost.
func TestFakeHold(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
	h, lose := rlock.FakeHold(ctx, 7)
	NoError(t, h.Relock(ctx))
	cancel()
	WantErr(t, h.Relock(ctx), context.Canceled)
	states(t, "twice", h, 2, nil)
	if h.Token() != 8 || h.Context().Value(key{}) != "v" {
		t.Errorf("token %d, value %v", h.Token(), h.Context().Value(key{}))
	}
	NoError(t, h.Unlock(ctx))
	states(t, "once", h, 1, nil)
	NoError(t, h.Unlock(ctx))
	lose() // too late
	states(t, "unlocked", h, 0, rlock.ErrNotHeld)
	want(t, "the cause of its context", context.Cause(h.Context()), context.Canceled)

	h, lose = rlock.FakeHold(t.Context(), 0)
	lose()
	states(t, "lost", h, 0, rlock.ErrLost)
	WantErr(t, context.Cause(h.Context()), rlock.ErrLost)
	WantErr(t, h.Unlock(t.Context()), rlock.ErrLost)
	want(t, "token", h.Token(), 0)
}

// A lock says what it is, also where Redis is down.
func TestLockString(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	locks := rlock.New(client)
	for text, lock := range map[string]fmt.Stringer{
		`lock "jobs"`: locks.Lock("jobs"), `fenced lock "jobs"`: locks.FencedLock("jobs"),
		`fair lock "jobs"`: locks.FairLock("jobs"), `lock ""`: locks.Lock(""),
	} {
		if lock.String() != text {
			t.Errorf("%s, want %s", lock, text)
		}
	}
	want(t, "name", locks.FairLock("jobs").Name(), "jobs")
}
