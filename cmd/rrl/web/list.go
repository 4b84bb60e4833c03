package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/redisson-go/rratelimiter/internal/inspect"
)

// A list is the result of a search.
type list struct {
	limiters []*inspect.Limiter
	locks    []*inspect.Lock
	stopped  bool // at Config.Limit
	at       time.Time
}

// list returns the limiters that match a viewer's pattern, from a search that is at most resting old.
func (h *Handler) list(ctx context.Context, pattern string) (*list, error) {
	return search(ctx, h.lists, pattern, func(ctx context.Context) (*list, error) {
		scan := inspect.Scan{Match: pattern, Limit: mostListed, Keep: h.matches}
		found, locks, done, err := scan.All(ctx, h.rdb)
		return &list{found, locks, done.Stopped, time.Now()}, err
	})
}

// clientsOf returns the ids of the clients of a limiter, from a search that is at most resting old.
func (h *Handler) clientsOf(ctx context.Context, hash string) ([]string, error) {
	return search(ctx, h.clients, hash, func(ctx context.Context) ([]string, error) {
		return inspect.Clients(ctx, h.rdb, hash)
	})
}

// A row is a limiter in the list.
type row struct {
	Name, Link                       string
	Type, Rate, Interval, KeepAlive  string
	Remaining, Outstanding, TTL, Ids string
	Findings                         int
	Share                            int64 // percent of the rate that remains, for the client with the least
	Saturated, InDebt                bool
}

// A lockRow is a lock in the list.
type lockRow struct {
	Name, Kind, Holder, TTL, Waiting string
	Findings                         int
}

// A listing is the page of the list.
type listing struct {
	Rows    []row
	Locks   []lockRow
	Held    string // their number
	Pattern string // of the viewer
	Search  bool   // whether there is a search field
	Limit   int
	Stopped bool
	Age     string
	Every   string
}

func (h *Handler) listPage(w http.ResponseWriter, r *http.Request) {
	pattern := r.URL.Query().Get("match")
	if err := checkPattern(pattern); err != nil {
		h.refuse(w, &problem{http.StatusBadRequest, "Refused: " + err.Error() + "."})
		return
	}
	if h.config.Mask && pattern != "" { // a search would reveal the names, letter by letter
		h.refuse(w, &problem{http.StatusForbidden, "Names are masked here, so they cannot be searched for."})
		return
	}
	found, err := h.list(r.Context(), pattern)
	if err != nil {
		h.refuse(w, err)
		return
	}
	page := listing{
		Pattern: pattern, Search: !h.config.Mask, Limit: mostListed, Stopped: found.stopped,
		Age: ago(time.Since(found.at)), Every: span(resting.Milliseconds()),
	}
	links := 0
	for _, l := range found.limiters {
		row := h.row(l)
		if links += len(row.Link); links > mostLinks {
			row.Link = ""
		}
		page.Rows = append(page.Rows, row)
	}
	for _, l := range found.locks {
		page.Locks = append(page.Locks, h.lockRow(l))
	}
	page.Held = count(int64(len(page.Locks)), "lock")
	if h.config.Mask { // the order of the names would reveal something about them
		slices.SortFunc(page.Rows, func(a, b row) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(page.Locks, func(a, b lockRow) int { return cmp.Compare(a.Name, b.Name) })
	}
	h.render(w, http.StatusOK, "list", frame{Title: "Rate limiters", Page: page})
}

func ago(d time.Duration) string {
	if d < time.Second {
		return "just now"
	}
	return span(d.Truncate(time.Second).Milliseconds()) + " ago"
}

// row returns the row of a limiter.
func (h *Handler) row(l *inspect.Limiter) row {
	c, name := &l.Config, h.public(l.Name)
	row := row{
		Name: cut(shown(name[:min(len(name), longestName)])),
		Type: c.Type, Rate: number(c.Rate), Interval: span(c.Interval), KeepAlive: "none",
		TTL: "none",
	}
	if len(name) <= longestName {
		row.Link = h.link("limiter", l.Name, "")
	}
	row.Findings = wrong(l.Findings)
	if c.KeepAlive > 0 {
		row.KeepAlive = span(c.KeepAlive)
	}
	if ttl := l.Keys[0].TTL; ttl >= 0 {
		row.TTL = span(ttl)
	}
	if c.PerClient() {
		row.Ids = number(int64(l.Clients))
	}
	var remaining, outstanding []int64
	atLeast := false
	for _, p := range l.InUse() {
		remaining, outstanding = append(remaining, p.Remaining-p.Debt), append(outstanding, p.Outstanding)
		row.InDebt = row.InDebt || p.Debt > 0
		atLeast = atLeast || p.AtLeast
	}
	if len(remaining) > 0 && c.Rate > 0 {
		least := slices.Min(remaining)
		row.Share, row.Saturated = share(least, c.Rate), least <= 0
	}
	row.Remaining, row.Outstanding = extent(remaining), extent(outstanding)
	if atLeast {
		row.Remaining, row.Outstanding = "at least "+row.Remaining, "at most "+row.Outstanding
	}
	return row
}

// share returns the percent of a rate that remains.
func share(remaining, rate int64) int64 {
	const percent = 100
	return int64(float64(max(0, min(remaining, rate))) * percent / float64(max(rate, 1)))
}

// wrong counts the findings that are not mere remarks.
func wrong(found []inspect.Finding) (n int) {
	for _, f := range found {
		if !f.Remark {
			n++
		}
	}
	return n
}

// lockRow returns the row of a lock.
func (h *Handler) lockRow(l *inspect.Lock) lockRow {
	name := h.public(l.Name)
	row := lockRow{
		Name: cut(shown(name[:min(len(name), longestName)])), Kind: string(l.Kind), Holder: "none",
		TTL: "none", Waiting: number(l.Waiting),
	}
	if len(l.Owners) > 0 {
		row.Holder = cut(shown(h.public(l.Owners[0].Name)))
	}
	if ttl := l.TTL(); ttl >= 0 {
		row.TTL = span(ttl)
	}
	row.Findings = wrong(l.Findings)
	return row
}

// extent returns the smallest and the largest of numbers.
func extent(all []int64) string {
	if len(all) == 0 {
		return ""
	}
	least, most := slices.Min(all), slices.Max(all)
	if least == most {
		return number(least)
	}
	return fmt.Sprintf("%s to %s", number(least), number(most))
}
