package engine

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/failure"
	"github.com/redisson-go/rratelimiter/internal/queue"
)

// Callers that wait for room get the error of a call that has hung: go-redis has given up, or the caller of
// that call has after five seconds.
func TestACallThatHangsEndsTheWaitForRoom(t *testing.T) {
	for _, c := range []struct {
		what string
		err  error
		lasts,
		reply time.Duration // when another call got a reply; 0 for none
		deadline time.Duration // of the caller that waits; 0 for none
		hung     bool
	}{
		{"go-redis gave up", io.EOF, queue.HangsAfter + 1, 0, 0, true},
		{"it failed at once", io.EOF, queue.HangsAfter, 0, 0, false},
		{"its caller gave up", errLeft, 5*time.Second + 1, 0, 0, true},
		{"its caller gave up early", errLeft, 5 * time.Second, 0, 0, false},
		{"its caller gave up, not one with a deadline", errLeft, time.Minute, 0, time.Hour, false},
		{"go-redis gave up, also for one with a deadline", io.EOF, time.Minute, 0, time.Hour, true},
		{"a reply", nil, time.Minute, 0, 0, false},
		{"an error of a limiter", failure.Of("api", io.EOF), time.Minute, 0, 0, false},
		{"Redis replies to others", io.EOF, time.Minute, time.Second, 0, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := sessions{underWay: make(chan struct{}, 1)}
				began := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), c.deadline)
				defer cancel()
				if c.deadline == 0 {
					ctx = context.Background()
				}
				if err := s.enter(ctx, t.Context()); err != nil {
					t.Fatal(err)
				}
				waiting := make(chan error, 1)
				go func() { waiting <- s.enter(ctx, t.Context()) }()
				synctest.Wait()
				time.Sleep(c.reply)
				if c.reply > 0 {
					s.note(time.Now(), nil)
				}
				time.Sleep(c.lasts - c.reply)
				s.note(began, c.err)
				<-s.underWay
				want := c.err
				if !c.hung {
					want = nil
				}
				if err := <-waiting; !errors.Is(err, want) {
					t.Errorf("a caller that waits gets %v, want %v", err, want)
				}
			})
		})
	}
}
