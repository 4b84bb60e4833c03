// Command peer makes the calls that it reads, one on a line, on a limiter, with the version of the library
// that it is built from: peer ADDR NAME. It uses only what the oldest version that is compared has.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
)

func main() {
	client := rratelimiter.New(redis.NewClient(&redis.Options{Addr: os.Args[1]}))
	limiter := client.RateLimiter(os.Args[2])
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var call string
		var n int64
		_, _ = fmt.Sscan(in.Text(), &call, &n)
		fmt.Println(do(limiter, call, n))
	}
}

func do(l *rratelimiter.RateLimiter, call string, n int64) (answer any, err error) {
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	switch call {
	case "set":
		return "", l.SetRate(ctx, rratelimiter.Overall, n, time.Hour)
	case "take":
		return l.TryAcquire(ctx, n, 0)
	case "release":
		return "", l.Release(ctx, n)
	case "left":
		return l.AvailablePermits(ctx)
	}
	return nil, fmt.Errorf("call is %q", call)
}
