package httplimit_test

import (
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// exampleAddr is where the Redis of the examples listens.
var exampleAddr string

func TestMain(m *testing.M) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	// Its clock stands still: however slow the machine is, the examples print the same.
	server.SetTime(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
	exampleAddr = server.Addr()
	code := m.Run()
	server.Close()
	os.Exit(code)
}
