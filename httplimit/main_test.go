package httplimit_test

import (
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
)

// exampleAddr is where the Redis of the examples listens.
var exampleAddr string

func TestMain(m *testing.M) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	exampleAddr = server.Addr()
	code := m.Run()
	server.Close()
	os.Exit(code)
}
