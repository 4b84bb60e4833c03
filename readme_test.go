package rratelimiter_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// withExamples is a test run with a server for the examples.
type withExamples struct{ m *testing.M }

// exampleAddr is where the Redis of the examples listens. In the blocks of the pages it is
// localhost:6379 (TestBlocks).
var exampleAddr string

func (w withExamples) Run() int {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	exampleAddr = server.Addr()
	code := w.m.Run()
	server.Close()
	return code
}

func TestMain(m *testing.M) { redistest.VerifyNoLeaks(withExamples{m}) }
