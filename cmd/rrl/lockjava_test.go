package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redisson-go/rratelimiter/internal/javapeer"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// Redisson and rrl exclude each other from a lock of each kind, wake each other up, and name the holder.
func TestLockBesideJava(t *testing.T) {
	redistest.Require(t, "java")
	redistest.Require(t, "mvn")
	peer := redistest.Must(
		javapeer.Start(t.Context(), "", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"))(t)
	t.Cleanup(func() { _ = peer.Close() })
	server := redistest.Start(t)
	redistest.Must(peer.Connect(t.Context(), "java", server.Addr))(t)
	for kind, flag := range map[javapeer.LockKind]string{
		javapeer.Reentrant: "", javapeer.Fenced: " --fenced", javapeer.Fair: " --fair",
	} {
		t.Run(string(kind), func(t *testing.T) {
			besideJava(t, server, peer.Lock("java", string(kind), kind), string(kind), flag)
		})
	}
}

func besideJava(t *testing.T, server *redistest.Server, java *javapeer.Lock, name, flag string) {
	t.Helper()
	const thread = "main"
	ctx := t.Context()
	owner, err := java.Owner(ctx, thread)
	if err == nil {
		err = java.LockLease(ctx, thread, time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	take := "lock " + name + " --id svc --lease 1h" + flag
	steps(t, server.Addr,
		step{take + " --wait 0", 1, "refused, another owner holds it", ""},
		step{"inspect " + name, 0, "held by " + owner + ", for ", ""},
	)
	taken := make(chan string, 1)
	go func() {
		code, stdout, stderr := on(t, server.Addr, take+" --wait 1m")
		taken <- strings.Repeat("error ", code) + stdout + stderr
	}()
	untilWaiting(t, server)
	if err := java.Unlock(ctx, thread); err != nil {
		t.Error(err)
	}
	if got := <-taken; !strings.HasPrefix(got, `"`+name+`": locked by svc:`) {
		t.Error(got)
	}
	tries := func(want bool) {
		t.Helper()
		if ok, err := java.TryLock(ctx, thread); ok != want || err != nil {
			t.Errorf("tryLock: %v, %v; want %v", ok, err, want)
		}
	}
	tries(false)
	steps(t, server.Addr, step{"unlock " + name + " --force --yes", 0, "unlocked", ""})
	tries(true)
	const unlocked = `"unlocked": true, "owners": [ { "owner": "`
	steps(t, server.Addr, step{"unlock " + name + " --force --yes --json", 0, unlocked + owner, ""})
	if held, err := java.HeldByCurrent(ctx, thread); held || err != nil {
		t.Errorf("isHeldByCurrentThread: %v, %v", held, err)
	}
	free(t, server, name)
}
