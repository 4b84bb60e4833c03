package main

// A usersData is what the page shows of the part users.
type usersData struct {
	Redis, RedisRate, Ulule, Httprate, HttprateRedis string // versions

	Users, Rounds        int
	Window, Span, Warmup string
	Tables               []usersTable
	Room                 []roomRow

	// MB of the Go heap: before, when all users have come, and when their limits
	// have expired.
	HeapBefore, HeapFull, HeapAfter float64
}

// A usersTable has all contestants of one crowd, with one number of callers.
type usersTable struct {
	Crowd, Who string
	Rows       []rowData
}

// A roomRow is what users take in Redis.
type roomRow struct {
	Name        string
	Keys, Left  int64 // with all users, and when they have expired
	Full, After float64
	PerUser     float64 // bytes
}

// data returns the medians.
func (r *usersResult) data() *usersData {
	d := &usersData{
		Redis: r.redis, RedisRate: moduleVersion("github.com/go-redis/redis_rate/v10"),
		Ulule:         moduleVersion("github.com/ulule/limiter/v3"),
		Httprate:      moduleVersion("github.com/go-chi/httprate"),
		HttprateRedis: moduleVersion("github.com/go-chi/httprate-redis"),
		Users:         r.users, Rounds: len(r.speeds[0].rows[userOurs]), Window: userWindow.String(),
		Span: span.String(), Warmup: warmup.String(),
		HeapBefore: r.heap[0], HeapFull: r.heap[1], HeapAfter: r.heap[2],
	}
	for i := range r.speeds {
		d.Tables = append(d.Tables, r.speeds[i].data())
	}
	for i, room := range r.room {
		d.Room = append(d.Room, roomRow{
			userLabels[i], room.keys, room.left, room.full, room.after, room.full * 1e6 / float64(r.users),
		})
	}
	return d
}

// data returns the medians of one table.
func (u *usersSpeed) data() usersTable {
	t := usersTable{Crowd: u.crowd, Who: callersText(u.callers)}
	for who, rows := range u.rows {
		of := func(figure func(sample) float64) float64 { return median(rows, figure) }
		t.Rows = append(t.Rows, rowData{
			userLabels[who], of(perSecond), of(p50), of(p99), of(p999),
			of(cpu), of(script), of(calls), of(allocs),
		})
	}
	return t
}

// targets returns that users who have gone leave nothing.
func (r *usersResult) targets() []target {
	users := thousands(float64(r.users)) + " users "
	room, full, after := r.room[userOurs], r.heap[1]-r.heap[0], r.heap[2]-r.heap[0]
	return []target{
		most("T11", users+"have come: heap of the process, beyond that before", full, 5, " MB"),
		most("T11", users+"have gone: heap of the process, beyond that before", after, 5, " MB"),
		most("T11", users+"have gone: keys in Redis", float64(room.left), 0, ""),
		most("T11", users+"have gone: memory of Redis, beyond that before", room.after, 1, " MB"),
	}
}
