package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter"
	"github.com/redisson-go/rratelimiter/rlock"
)

// A storage refuses who comes with an older token than it has seen. It asks for the token also
// when it is read: what is written depends on what was read.
type storage struct {
	mu    sync.Mutex
	seen  int64  // the greatest token, guarded by mu
	value string // guarded by mu
}

var errTooLate = errors.New("somebody else has had the lock since")

func (s *storage) read(token int64) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.seen {
		return "", errTooLate
	}
	s.seen = token
	return s.value, nil
}

func (s *storage) write(token int64, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token < s.seen {
		return errTooLate
	}
	s.seen, s.value = token, value
	return nil
}

// A holder that sleeps past its lease does no harm to a resource that refuses old tokens.
func ExampleFencedLock() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: exampleAddr})
	defer rdb.Close()
	client := rratelimiter.New(rdb)
	defer client.Close()
	lock := rlock.New(client).FencedLock("account:7")
	var account storage

	slow, err := lock.LockFor(ctx, 50*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	before, err := account.read(slow.Token())
	if err != nil {
		log.Fatal(err)
	}
	<-slow.Context().Done() // it sleeps for too long, without looking at the context

	next, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the next one:", account.write(next.Token(), "100"))
	fmt.Println("the slow one:", account.write(slow.Token(), before+"5"))
	fmt.Println("value:", account.value)
	fmt.Println(next.Unlock(ctx))
	// Output:
	// the next one: <nil>
	// the slow one: somebody else has had the lock since
	// value: 100
	// <nil>
}
