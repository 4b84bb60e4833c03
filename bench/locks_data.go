package main

import (
	"fmt"
	"slices"

	"github.com/redisson-go/rratelimiter/internal/shares"
)

// A locksData is what the page shows of locks.
type locksData struct {
	Redisson  string // version
	Versions  map[string]string
	Rounds    int
	Lease     string
	Processes int

	Alone    []lockAloneRow
	Crowds   []lockCrowdTable
	Failures []string // scenes without the figures of a rival, and why
	Beside   *lockBeside
	Held     *locksHeld

	load lockLoad
}

// A lockAloneRow is a lock and its unlock by a lone caller.
type lockAloneRow struct {
	Name              string
	P50, P99          num
	Requests, Scripts num
	CPU               num // µs of the process of Redis, without the work of the hold
	Allocs            num
	ByP50, ByCPU      num // Lock, by it
}

// A lockCrowdTable is a scene of many callers.
type lockCrowdTable struct {
	Name string
	Rows []lockCrowdRow
}

// A lockCrowdRow is an entrant in it.
type lockCrowdRow struct {
	Name                        string
	P50, P99, PerSecond, Others num
	Scripts, CPU                num
	ByP50                       num // Lock, by it
}

// A lockBeside is what Go and Java had of one lock.
type lockBeside struct {
	Callers                int // of each side
	Go, Java, PerSecond    num
	Share                  num // the part that Java had
	Least                  num // of the side that had less: its part by what is due, in the worst round
	Fewest, Most           num // holds of one caller of Go
	GoWithout, JavaWithout num // ms
}

// A locksHeld is the cost of locks that are held.
type locksHeld struct {
	Locks int
	Lease string
	Rows  []lockHeld
}

// lockVersions returns the versions of the rivals.
func lockVersions() map[string]string {
	return map[string]string{
		"Redislock":   moduleVersion("github.com/bsm/redislock"),
		"Redsync":     moduleVersion("github.com/go-redsync/redsync/v4"),
		"Rueidislock": moduleVersion("github.com/redis/rueidis"), // it is part of it
	}
}

// net returns the CPU of the samples without that of the work of the holds.
func (a *lockArena) net(samples []lockSample) []lockSample {
	all := slices.Clone(samples)
	for i := range all {
		all[i].cpu -= a.work[i].cpu
	}
	return all
}

// lockRatio returns the median over the rounds of a figure of a by that of b.
func lockRatio(a, b []lockSample, of func(lockSample) float64) float64 {
	ratios := make([]float64, min(len(a), len(b)))
	for i := range ratios {
		ratios[i] = of(a[i]) / of(b[i])
	}
	return quantile(ratios, 0.5)
}

// ofName returns the result of an entrant.
func (a *lockArena) ofName(name string) *lockResult {
	for _, r := range a.results {
		if r.name == name {
			return r
		}
	}
	return &lockResult{samples: make([][]lockSample, len(a.scenes))}
}

// aloneRows returns the table of a lone caller.
func (a *lockArena) aloneRows() (rows []lockAloneRow) {
	ours := a.net(a.ofName(ourLockName).samples[sceneAlone])
	for _, r := range a.results {
		if len(r.samples[sceneAlone]) == 0 {
			continue
		}
		samples := a.net(r.samples[sceneAlone])
		of := func(figure func(lockSample) float64) num { return num(median(samples, figure)) }
		rows = append(rows, lockAloneRow{
			r.name, of(lockP50), of(lockP99), num(r.requests), of(lockScripts), of(lockCPU), num(r.allocs),
			num(lockRatio(ours, samples, lockP50)), num(lockRatio(ours, samples, lockCPU)),
		})
	}
	return rows
}

// crowdTables returns the tables of many callers.
func (a *lockArena) crowdTables() (tables []lockCrowdTable) {
	for i, scene := range a.scenes {
		if scene.in&inCrowds == 0 {
			continue
		}
		t, ours := lockCrowdTable{Name: scene.name}, a.ofName(ourLockName).samples[i]
		for _, r := range a.results {
			if len(r.samples[i]) == 0 {
				continue
			}
			samples := a.net(r.samples[i])
			of := func(figure func(lockSample) float64) num { return num(median(samples, figure)) }
			t.Rows = append(t.Rows, lockCrowdRow{
				r.name, of(lockP50), of(lockP99), of(lockPerSecond), of(lockOthers), of(lockScripts),
				of(lockCPU), num(lockRatio(ours, samples, lockP50)),
			})
		}
		tables = append(tables, t)
	}
	return tables
}

// besideOf returns the medians of all rounds, and the worst of them for who had less.
func besideOf(all []lockShare) *lockBeside {
	of := func(figure func(lockShare) float64) num { return num(median(all, figure)) }
	share := func(s lockShare) float64 { return s.java / (s.golang + s.java) }
	least := 1.0
	for _, s := range all {
		least = min(least, 2*share(s), 2*(1-share(s))) // a half is due to each
	}
	return &lockBeside{
		Callers: besideCallers,
		Go:      of(func(s lockShare) float64 { return s.golang }),
		Java:    of(func(s lockShare) float64 { return s.java }),
		Share:   of(share), Least: num(least),
		PerSecond:   of(func(s lockShare) float64 { return s.perSecond }),
		Fewest:      of(func(s lockShare) float64 { return s.fewest }),
		Most:        of(func(s lockShare) float64 { return s.most }),
		GoWithout:   of(func(s lockShare) float64 { return s.goWithout }),
		JavaWithout: of(func(s lockShare) float64 { return s.javaWithout }),
	}
}

// mostScripts is how many script calls a hand-over may take.
const mostScripts = 3

// targets returns those of this library's locks beside Redisson's.
func (a *lockArena) targets() (all []target) {
	ours, java := a.ofName(ourLockName), a.ofName(javaLockName)
	for i, scene := range a.scenes {
		what := "a lock alone: p50 of unlock and lock"
		if scene.in&inCrowds != 0 {
			what = scene.name + ": p50 of a hand-over"
			all = append(all, most("T17", scene.name+": script calls of a hand-over",
				median(ours.samples[i], lockScripts), mostScripts, ""))
		}
		by := most("T17", what+", by Redisson", lockRatio(ours.samples[i], java.samples[i], lockP50), 1, "")
		if len(java.samples[i]) == 0 {
			by = by.unmeasured()
		}
		all = append(all, by)
	}
	return all
}

// targets returns those of a lock that is shared with Java, and of locks that are held.
func (d *locksData) targets() []target {
	load, held := d.load, d.Held.Rows[0]
	// Twice that of full batches: locks that were not taken together are renewed apart.
	bound := 2 * float64(load.locks) / lockBatch / (load.lease / 3).Seconds()
	return []target{
		least("T17", fmt.Sprintf("a lock that %d callers of Go and %d of Java want: got by what was due, "+
			"of who got less", besideCallers, besideCallers), float64(d.Beside.Least), shares.LeastRatio, ""),
		most("T17", fmt.Sprintf("%s locks held: script calls a second", thousands(float64(load.locks))),
			float64(held.Scripts), bound, ""),
	}
}

// lockBatch is how many locks one script call renews.
const lockBatch = 100
