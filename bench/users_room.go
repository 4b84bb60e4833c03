package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// A usersRoom is what users take in Redis, in MB, and how many keys that is:
// with all users, and when their limits have expired.
type usersRoom struct {
	admin       *redis.Client
	before      float64 // MB
	full, after float64 // MB, without before
	keys, left  int64
}

// measureRoom lets all users take the one permit that they have, of each
// contestant on a server of its own, and waits until nothing is left. One permit:
// some keep a user for no longer than the permits take to come back.
func (r *usersResult) measureRoom(ctx context.Context, s *scope, users []string) (err error) {
	window := amount(s, 20*time.Second, time.Second)
	r.room = make([]usersRoom, userLocked) // the contestant behind has the keys of the one before
	// This library comes last, so that nothing but its users changes the heap.
	for who := userLocked - 1; who >= 0; who-- {
		if r.room[who], err = r.fill(ctx, s, who, users, window); err != nil {
			return fmt.Errorf("%s: %w", userLabels[who], err)
		}
		progress("users: memory of %s", userLabels[who])
	}
	for i := range r.room {
		if err := r.room[i].empties(ctx); err != nil {
			return fmt.Errorf("%s: %w", userLabels[i], err)
		}
	}
	r.heap[2] = heapMB()
	runtime.KeepAlive(s) // it has the clients
	return nil
}

// fill lets all users take their permit.
func (r *usersResult) fill(
	ctx context.Context, s *scope, who int, users []string, window time.Duration,
) (room usersRoom, err error) {
	server := redistest.Start(s)
	once, err := userMakers[who](s, server.Client(s, patient), 1, window)
	if err != nil {
		return room, err
	}
	// Connections and scripts are made before.
	if err := meet(ctx, once, warmUsers); err != nil {
		return room, err
	}
	room.admin = server.Admin()
	if room.before, err = usedMemory(ctx, room.admin); err != nil {
		return room, err
	}
	warm, err := room.admin.DBSize(ctx).Result()
	if err != nil {
		return room, err
	}
	if who == userOurs {
		r.heap[0] = heapMB()
	}
	if err := meet(ctx, once, users); err != nil {
		return room, err
	}
	if who == userOurs {
		r.heap[1] = heapMB()
	}
	room.full, err = usedMemory(ctx, room.admin)
	room.full -= room.before
	if err == nil {
		room.keys, err = room.admin.DBSize(ctx).Result()
	}
	room.keys -= warm
	return room, err
}

// warmUsers come before anything is measured.
var warmUsers = func() (users []string) {
	for i := range 200 {
		users = append(users, fmt.Sprint("warm-", i))
	}
	return users
}()

// empties waits until all keys have expired, and reads the memory then.
func (u *usersRoom) empties(ctx context.Context) (err error) {
	const longest = 2 * time.Minute // httprate-redis keeps three windows
	for start := time.Now(); ; {
		u.left, err = u.admin.DBSize(ctx).Result()
		if err != nil {
			return err
		}
		if u.left == 0 || time.Since(start) > longest {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	// Redis gives the table of its keys back a little later.
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	u.after, err = usedMemory(ctx, u.admin)
	u.after -= u.before
	return err
}

// pause waits for d, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// usedMemory returns the MB that Redis uses for everything.
func usedMemory(ctx context.Context, rdb *redis.Client) (float64, error) {
	info, err := rdb.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	used, err := strconv.ParseFloat(info["Memory"]["used_memory"], 64)
	return used / 1e6, err
}

// meet lets each user ask once.
func meet(ctx context.Context, once keyedAsk, users []string) error {
	return inParallel(64, len(users), func(i int) error {
		ok, err := once(ctx, users[i])
		if err == nil && !ok {
			err = errRefused
		}
		return err
	})
}
