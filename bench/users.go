package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/redistest"
)

// usersPart is a service with a limit for each of its users: speed, and what
// they leave in Redis and in the process.
var usersPart = &part{
	name: "users", set: setPage, measure: measureUsers,
	about: "a limit for each of 100,000 users, beside redis_rate, ulule and httprate-redis",
}

const (
	// userWindow is the window of each user's limit while speed is measured. It is
	// longer than a round, so that users are still there when they come back.
	userWindow = time.Minute

	// userPlenty is more permits than a run can ask for: a refusal would be cheaper
	// for some.
	userPlenty = 1_000_000_000

	// userRounds are the most rounds: each takes half a minute or more.
	userRounds = 5
)

// A crowdOf says how often users come.
type crowdOf struct {
	name string
	// draw returns a user below n.
	draw func(r *rand.Rand, n int) func() int
}

// crowdsOf are all of them.
var crowdsOf = []crowdOf{
	{"all users come as often", func(r *rand.Rand, n int) func() int {
		return func() int { return r.IntN(n) }
	}},
	{"few users come most often (Zipf, s = 1.1)", func(r *rand.Rand, n int) func() int {
		z := rand.NewZipf(r, 1.1, 1, uint64(n-1))
		return func() int { return int(z.Uint64()) }
	}},
}

// visits are the users in the order in which they come.
type visits struct {
	users []string
	order []int32
}

// newVisits draws the order before anything is measured.
func newVisits(c crowdOf, users []string, length int) *visits {
	v := &visits{users, make([]int32, length)}
	draw := c.draw(rand.New(rand.NewPCG(1, 2)), len(users)) // the same for each run
	for i := range v.order {
		v.order[i] = int32(draw())
	}
	return v
}

// asks lets callers ask for one user after the other, each from another place on.
func (v *visits) asks(once keyedAsk, callers int) []ask {
	asks, start := make([]ask, callers), rand.IntN(len(v.order))
	for i := range asks {
		at := start + i*(len(v.order)/callers)
		asks[i] = func(ctx context.Context) (bool, error) {
			at++
			return once(ctx, v.users[v.order[at%len(v.order)]])
		}
	}
	return asks
}

// A usersResult is what all contestants showed.
type usersResult struct {
	redis  string // version
	users  int
	speeds []usersSpeed
	room   []usersRoom // by contestant
	heap   [3]float64  // MB before, with all users, and when their limits have expired
}

// A usersSpeed has all samples of one crowd with one number of callers.
type usersSpeed struct {
	visits  *visits
	crowd   string
	callers int
	rows    [userContestants][]sample
}

// measureUsers measures speed in turns on one server, and then memory on one
// for each contestant.
func measureUsers(ctx context.Context, s *scope) (finding, error) {
	server := redistest.Start(s)
	admin := server.Admin()
	r := &usersResult{users: amount(s, 100_000, 200)}
	users := make([]string, r.users)
	for i := range users {
		users[i] = fmt.Sprintf("user-%06d", i)
	}
	var err error
	if r.redis, err = serverVersion(ctx, admin); err != nil {
		return finding{}, err
	}
	r.prepare(s, users)
	if err := r.measureSpeed(ctx, s, server, users); err != nil {
		return finding{}, err
	}
	if err := r.measureRoom(ctx, s, users); err != nil {
		return finding{}, err
	}
	return finding{r.data(), r.targets()}, nil
}

// prepare makes the rows without samples.
func (r *usersResult) prepare(s *scope, users []string) {
	for _, c := range crowdsOf {
		v := newVisits(c, users, amount(s, 1<<20, 1<<10))
		for _, callers := range amount(s, []int{1, 64, 512}, []int{4}) {
			r.speeds = append(r.speeds, usersSpeed{visits: v, crowd: c.name, callers: callers})
		}
	}
}

// measureSpeed lets each contestant meet all users once, and then takes turns.
func (r *usersResult) measureSpeed(
	ctx context.Context, s *scope, server *redistest.Server, users []string,
) error {
	var asks [userContestants]keyedAsk
	for who := range asks {
		once, err := userMakers[who](s, server.Client(s, patient), userPlenty, userWindow)
		if err == nil && who != userLocked { // its users are those of userCounter
			err = meet(ctx, once, users)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", userLabels[who], err)
		}
		asks[who] = once
	}
	admin := server.Admin()
	rounds := min(s.rounds, userRounds)
	for round := range rounds {
		for i := range r.speeds {
			if err := r.speeds[i].round(ctx, s, admin, &asks, round); err != nil {
				return err
			}
		}
		progress("users: round %d of %d", round+1, rounds)
	}
	return nil
}

// round gives every contestant a batch. Each round begins with another one.
func (u *usersSpeed) round(
	ctx context.Context, s *scope, admin *redis.Client, asks *[userContestants]keyedAsk, round int,
) error {
	for i := range asks {
		who := (i + round) % len(asks)
		runtime.GC() //revive:disable-line:call-to-gc none pays for the garbage of another
		got, err := s.runBatch(ctx, admin, u.visits.asks(asks[who], u.callers))
		if err != nil {
			return fmt.Errorf("%s, %s: %w", userLabels[who], callersText(u.callers), err)
		}
		u.rows[who] = append(u.rows[who], got)
	}
	return nil
}
