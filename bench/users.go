package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisson-go/rratelimiter/internal/pause"
	"github.com/redisson-go/rratelimiter/internal/redistest"
)

const (
	// userWindow is the window of each user's limit while speed is measured. It is longer than a round, so
	// that users are still there when they come back.
	userWindow = time.Minute

	// userPlenty is more permits than a run can ask for: a refusal would be cheaper for some.
	userPlenty = 1_000_000_000
)

type crowdOf struct {
	name string
	// draw returns a user below n.
	draw func(r *rand.Rand, n int) func() int
}

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
func (v *visits) asks(l limiter, callers int) []ask {
	asks, start := make([]ask, callers), rand.IntN(len(v.order))
	for i := range asks {
		at := start + i*(len(v.order)/callers)
		asks[i] = func(ctx context.Context) (bool, error) {
			at++
			return l(ctx, v.users[v.order[at%len(v.order)]])
		}
	}
	return asks
}

type userEntrant struct {
	name  string
	keyed newLimiter
	again bool // its keys are those of another entrant, so that its memory is not measured
}

func userEntrants() []userEntrant {
	all := []userEntrant{{name: oursName, keyed: func(e env) limiter {
		t := e.s.client(e.rdb).Keyed(e.name, e.permits, e.window)
		return func(ctx context.Context, user string) (bool, error) {
			r, err := t.Allow(ctx, user, 1)
			return r.Allowed, err
		}
	}}}
	for _, name := range []string{"redis_rate", "ulule/limiter", "rueidislimiter", "httprate-redis"} {
		all = append(all, userEntrant{name: name, keyed: rivalOnRedis(name).keyed})
	}
	all[len(all)-1].name = "httprate-redis, its counter alone"
	const auto = "redis_rate, AutoPipeline"
	return append(all, userEntrant{"httprate-redis", httprateLocked, true},
		userEntrant{auto, rivalOnRedis(auto).keyed, true})
}

type usersData struct {
	Redis, RedisRate, Ulule, Rueidis, Httprate, HttprateRedis string // versions

	Users, Rounds        int
	Window, Span, Warmup string
	Tables               []usersTable
	Room                 []*roomRow

	// MB of the Go heap: before, when all users have come, and when their limits have expired.
	HeapBefore, HeapFull, HeapAfter num
}

type usersTable struct {
	Crowd, Who string
	Rows       []row
}

// measureUsers measures speed in turns on one server, and then memory on one for each contestant.
func measureUsers(ctx context.Context, s *scope) finding {
	server := redistest.Start(s)
	users := make([]string, amount(s, 100_000, 200))
	for i := range users {
		users[i] = fmt.Sprintf("user-%06d", i)
	}
	d := &usersData{
		Redis:     get(infoOf(ctx, server.Admin(), "Server", "redis_version")),
		RedisRate: moduleVersion(modules["RedisRate"]), Ulule: moduleVersion(modules["Ulule"]),
		Rueidis: moduleVersion(modules["Rueidis"]), Httprate: moduleVersion(modules["Httprate"]),
		HttprateRedis: moduleVersion(modules["HttprateRedis"]),
		Users:         len(users), Rounds: s.rounds,
		Window: userWindow.String(), Span: span.String(), Warmup: warmup.String(),
	}
	targets := d.measureSpeed(ctx, s, server, users)
	d.measureRoom(ctx, s, users)
	come, gone := d.HeapFull-d.HeapBefore, d.HeapAfter-d.HeapBefore
	who, room := thousands(float64(len(users)))+" users ", d.Room[0]
	return finding{d, append(targets,
		most("T11", who+"have come: heap of the process, beyond that before", come, 5, " MB"),
		most("T11", who+"have gone: heap of the process, beyond that before", gone, 5, " MB"),
		most("T11", who+"have gone: keys in Redis", num(room.Left), 0, ""),
		most("T11", who+"have gone: memory of Redis, beyond that before", room.After, 1, " MB"),
	)}
}

// measureSpeed lets each contestant meet all users once, and then takes turns.
func (d *usersData) measureSpeed(
	ctx context.Context, s *scope, server *redistest.Server, users []string,
) (targets []target) {
	all := userEntrants()
	asks := make([]limiter, len(all))
	for who, e := range all {
		asks[who] = e.keyed(env{s, server.Client(s, patient), benchName, terms{userPlenty, userWindow}})
		if !e.again {
			meet(ctx, asks[who], users)
		}
	}
	for _, c := range crowdsOf {
		v := newVisits(c, users, amount(s, 1<<20, 1<<10))
		for _, callers := range amount(s, []int{1, 64, 512}, []int{4}) {
			rows := make([][]sample, len(all))
			must(takeTurns(ctx, "users", s.rounds, len(all), func(who int) error {
				got, err := s.runBatch(ctx, server.Admin(), v.asks(asks[who], callers))
				if err != nil {
					return fmt.Errorf("%s, %s: %w", all[who].name, callersText(callers), err)
				}
				rows[who] = append(rows[who], got)
				return nil
			}))
			t := usersTable{Crowd: c.name, Who: callersText(callers)}
			for who, e := range all {
				t.Rows = append(t.Rows, row{e.name, medians(rows[who])})
			}
			d.Tables = append(d.Tables, t)
			if c.name == crowdsOf[0].name && callers == amount(s, 64, 4) {
				targets = usersTargets(all, rows)
			}
		}
	}
	return targets
}

// usersTargets compares this library with its rivals.
func usersTargets(all []userEntrant, rows [][]sample) (targets []target) {
	by := map[string]float64{"redis_rate": 1.2, "ulule/limiter": 0.9, "redis_rate, AutoPipeline": 0.9}
	for who, e := range all {
		const what = "100,000 users, 64 callers: "
		if wanted, there := by[e.name]; there {
			targets = append(targets, least("T11", what+"calls per second by "+e.name,
				ratio(rows[0], rows[who], perSecond), wanted, ""))
		}
		if e.name == "redis_rate" {
			targets = append(targets, most("T11", what+"CPU of Redis per call by "+e.name,
				ratio(rows[0], rows[who], cpu), 1.2, ""))
		}
	}
	return targets
}

type roomRow struct {
	Name        string
	Keys, Left  int64 // with all users, and when they have expired
	Full, After num   // MB, without before
	PerUser     num   // bytes

	admin  *redis.Client
	before num // MB
}

// measureRoom lets all users take the one permit that they have, of each contestant on a server of its own,
// and waits until nothing is left. One permit: some keep a user for no longer than the permits take to come
// back.
func (d *usersData) measureRoom(ctx context.Context, s *scope, users []string) {
	window := amount(s, 20*time.Second, time.Second)
	all := slices.DeleteFunc(userEntrants(), func(e userEntrant) bool { return e.again })
	d.Room = make([]*roomRow, len(all))
	// This library comes last, so that nothing but its users changes the heap.
	for who, e := range slices.Backward(all) {
		server := redistest.Start(s)
		l := e.keyed(env{s, server.Client(s, patient), benchName, terms{1, window}})
		d.Room[who] = &roomRow{Name: e.name, admin: server.Admin()}
		d.fill(ctx, d.Room[who], l, users)
	}
	for _, room := range d.Room {
		room.empties(ctx)
	}
	d.HeapAfter = heapMB()
	runtime.KeepAlive(s) // it has the clients
}

func (d *usersData) fill(ctx context.Context, room *roomRow, l limiter, users []string) {
	// Connections and scripts are made before.
	must(inParallel(64, 200, func(i int) error { return granted(l(ctx, fmt.Sprint("warm-", i))) }))
	room.before = get(usedMemory(ctx, room.admin))
	warm := get(room.admin.DBSize(ctx).Result())
	d.HeapBefore = heapMB()
	meet(ctx, l, users)
	d.HeapFull = heapMB()
	room.Full = get(usedMemory(ctx, room.admin)) - room.before
	room.PerUser = room.Full * 1e6 / num(len(users))
	room.Keys = get(room.admin.DBSize(ctx).Result()) - warm
}

// empties waits until all keys have expired, and reads the memory then.
func (r *roomRow) empties(ctx context.Context) {
	const longest = 2 * time.Minute // httprate-redis keeps three windows
	for start := time.Now(); ; {
		r.Left = get(r.admin.DBSize(ctx).Result())
		if r.Left == 0 || time.Since(start) > longest {
			break
		}
		must(pause.For(ctx, 100*time.Millisecond))
	}
	// Redis gives the table of its keys back a little later.
	must(pause.For(ctx, time.Second))
	r.After = get(usedMemory(ctx, r.admin)) - r.before
}

func meet(ctx context.Context, l limiter, users []string) {
	must(inParallel(64, len(users), func(i int) error { return granted(l(ctx, users[i])) }))
}
