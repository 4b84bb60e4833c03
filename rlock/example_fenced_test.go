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

// A storage rejects tokens less than the greatest it has seen. A read also needs the token,
// because a write depends on what was read.
type storage struct {
	mu    sync.Mutex
	seen  int64  // the greatest token, guarded by mu
	value string // guarded by mu
}

var errTooLate = errors.New("the lock has had another holder since")

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

	slow, err := lock.LockFor(ctx, time.Second)
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
	// the slow one: the lock has had another holder since
	// value: 100
	// <nil>
}
