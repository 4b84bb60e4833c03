package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redisson-go/rratelimiter/internal/pause"
)

func TestFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, tt := range []struct {
			d, took time.Duration
			want    error
		}{
			{time.Minute, time.Minute, nil},
			{0, 0, nil},
			{time.Hour, 59 * time.Minute, context.DeadlineExceeded},
			{time.Hour, 0, context.DeadlineExceeded},
			{-1, 0, context.DeadlineExceeded},
		} {
			start := time.Now()
			err := pause.For(ctx, tt.d)
			if took := time.Since(start); !errors.Is(err, tt.want) || took != tt.took {
				t.Errorf("For(%v): %v after %v, want %v after %v", tt.d, err, took, tt.want, tt.took)
			}
		}
	})
}
