package web_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/cmd/rrl/web"
	"github.com/redisson-go/rratelimiter/internal/redistest"
	"github.com/redisson-go/rratelimiter/internal/wire"
)

// The pictures of docs/ show a limiter under load, and are small. make pictures writes them to the directory
// that PICTURES names, with full charts.
func TestPictures(t *testing.T) {
	t.Parallel()
	dir, points := os.Getenv("PICTURES"), 115
	if dir == "" {
		dir, points = t.TempDir(), 3
	}
	rdb := redistest.Start(t).Client(t)
	c := rratelimiter.New(rdb)
	t.Cleanup(func() { _ = c.Close() })
	const name = "api:checkout"
	redistest.NoError(t,
		c.RateLimiter(name).SetRate(t.Context(), rratelimiter.Overall, 800, 20*time.Second))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		load(ctx, rdb, c.RateLimiter(name), name)
	}()
	defer func() { stop(); <-ended }()
	s := site(t, rdb, web.Config{})
	b := open(t)
	b.do(chromedp.EmulateViewport(1200, 800), chromedp.Navigate(s.URL+page("/limiter", name)))
	b.sees(fmt.Sprintf("document.querySelectorAll('#grants rect').length > %d", points))
	shoot := func(file string, width, height int64, scheme string) {
		b.do(chromedp.EmulateViewport(width, height))
		b.prefers("color-scheme", scheme)
		clock := eval[string](b, "document.querySelector('#state').textContent")
		b.sees(fmt.Sprintf("document.querySelector('#state').textContent !== %q", clock)) // it is drawn again
		picture := redistest.Must(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(t)
		if err := os.WriteFile(filepath.Join(dir, file), picture, 0o644); err != nil {
			t.Error(err)
		}
		if most := 150 << 10; len(picture) > most {
			t.Errorf("%s has %d bytes, must have at most %d", file, len(picture), most)
		}
	}
	shoot("page-light.png", 1200, 900, "light")
	shoot("page-dark.png", 1200, 900, "dark")
	shoot("page-phone.png", 360, 780, "light")
	if said := b.said(); said != "" {
		t.Errorf("the console says %s", said)
	}
}

// load takes permits at a varying rate: by Go, and like a Java service.
func load(ctx context.Context, rdb *redis.Client, l *rratelimiter.RateLimiter, name string) {
	keys := wire.KeysOf(name, "").Pairs[0]
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		if busy := n/60%3 != 2; busy || n%5 == 0 {
			_, _ = l.TryAcquire(ctx, 1+rand.Int64N(4), 0)
		}
		if left, err := rdb.Get(ctx, keys.Value).Int64(); n%4 == 0 && err == nil && left > 3 {
			record := redistest.JavaRecord(int64(n), 3)
			tx := rdb.TxPipeline()
			tx.ZAdd(ctx, keys.Permits, redis.Z{Score: float64(time.Now().UnixMilli()), Member: record})
			tx.DecrBy(ctx, keys.Value, 3)
			_, _ = tx.Exec(ctx)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
