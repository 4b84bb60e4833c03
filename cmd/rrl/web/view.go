package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/redisson-go/rratelimiter/internal/inspect"
)

// A view is one look at a limiter: the contents of the page, and, as JSON, an event of its live stream. All
// texts are made here, so that the page and its updates agree, and with masks nothing else leaves the server.
type view struct {
	State string `json:"state"` // one of the constants below
	At    int64  `json:"at"`    // ms, by the clock of Redis

	// Texts are the texts of the page by their places: the attributes data-text.
	Texts map[string]string `json:"texts"`

	// The rest is set in stateOK only. Pair reports that there are numbers: a PER_CLIENT limiter has none
	// until a client is chosen.
	Pair      bool  `json:"pair"`
	Rate      int64 `json:"rate"`
	Interval  int64 `json:"interval_ms"`
	Remaining int64 `json:"remaining"`
	Saturated bool  `json:"saturated"` // nothing remains
	Share     int64 `json:"share"`     // percent of the rate that remains

	// Permits granted since the previous look, Elapsed ms ago; 0 if there was none.
	Elapsed  int64 `json:"elapsed_ms"`
	ByGo     int64 `json:"by_go"`
	ByOthers int64 `json:"by_others"`

	// Bars are the permits of the records by their age, those of Go and those of other clients: the first
	// bar is an interval old, the last one is now.
	Bars [][2]int64 `json:"bars"`

	// Recent are the same permits in each of the last 60 s.
	Recent [][2]int64 `json:"recent"`

	Back     [][2]string `json:"back"`     // permits, when they are back
	Keys     [][3]string `json:"keys"`     // name, kind, time to live
	Findings []finding   `json:"findings"` // what is wrong

	perClient bool
	exists    bool   // whether there is any part of a limiter
	data      []byte // as JSON
}

// A finding is one of inspect.
type finding struct {
	Label  string `json:"label"`
	What   string `json:"what"`
	Mend   string `json:"mend"`
	Remark bool   `json:"remark"` // the permits are right all the same
}

const (
	stateOK    = "ok"
	stateGone  = "gone"  // no rate is set
	stateError = "error" // Redis could not be asked
)

// bars is the number of bars of an interval, and of the last minute.
const (
	bars   = 60
	recent = bars * time.Second
)

// failure returns the view of a limiter that could not be read.
func (h *Handler) failure(err error) *view {
	return finish(&view{State: stateError, Texts: map[string]string{"summary": h.unread(err)}})
}

// unread says that Redis could not be read, with the reason unless names are masked: the reason may name
// hosts or keys.
func (h *Handler) unread(err error) string {
	if h.config.Mask {
		return "Redis could not be read."
	}
	return "Redis could not be read: " + shown(err.Error())
}

// view returns the view of a limiter for one client.
func (h *Handler) view(l, before *inspect.Limiter, id string) *view {
	v := &view{
		State: stateOK, At: l.At.UnixMilli(), Texts: map[string]string{},
		Rate: l.Config.Rate, Interval: l.Config.Interval, Findings: []finding{},
		perClient: l.Config.PerClient(), exists: l.Set || len(l.Findings) > 0,
	}
	if !l.Set {
		v.State = stateGone
	}
	if !v.perClient {
		id = ""
	}
	pair := l.PairOf(id)
	if v.perClient && id == "" || !l.Set {
		pair = nil
	}
	v.config(l)
	if pair != nil {
		v.pair(l, pair)
		if before != nil && before.PairOf(id) != nil {
			v.grants(l, before, id)
		}
	}
	v.keys(l, id, h)
	v.summary()
	return finish(v)
}

// finish encodes a view, once for all viewers.
func finish(v *view) *view {
	v.data, _ = json.Marshal(v) // texts and numbers: it never fails
	return v
}

func (v *view) config(l *inspect.Limiter) {
	c := &l.Config
	v.Texts["type"] = c.Type
	v.Texts["rate"] = count(c.Rate, "permit")
	v.Texts["interval"] = span(c.Interval)
	v.Texts["keep_alive"] = "none"
	if c.KeepAlive > 0 {
		v.Texts["keep_alive"] = span(c.KeepAlive)
	}
	v.Texts["clock"] = l.At.UTC().Format("15:04:05") + " UTC"
	v.Texts["sessions"] = number(int64(len(l.Sessions)))
}

// pair copies the numbers of a pair.
func (v *view) pair(l *inspect.Limiter, p *inspect.Pair) {
	v.Pair, v.Remaining, v.Saturated = true, p.Remaining, p.Remaining <= 0 && l.Config.Rate > 0
	v.Share = share(p.Remaining, l.Config.Rate)
	v.Texts["use"] = ""
	switch {
	case p.Debt > 0:
		v.Texts["use"] = debt(p)
	case v.Saturated:
		v.Texts["use"] = "Saturated: all permits are taken."
	}
	v.Texts["remaining"] = number(p.Remaining)
	v.Texts["outstanding"] = number(p.Outstanding)
	if p.Leased > 0 {
		v.Texts["outstanding"] += ", of which " + number(p.Leased) + " are leased"
	}
	v.Texts["value"] = "none: the limiter is full"
	if p.HasValue {
		v.Texts["value"] = shown(p.Value)
	}
	v.Texts["drift"] = "not checked"
	if p.Checked {
		v.Texts["drift"] = number(p.Drift)
	}
	v.Texts["records"] = number(p.Total)
	v.Texts["unread"] = ""
	if p.Unread > 0 {
		v.Texts["unread"] = fmt.Sprintf("Only %s of %s records were read: the oldest and the newest. "+
			"The numbers are those of the value.", number(int64(len(p.Records))), number(p.Total))
	}
	if p.AtLeast {
		v.Texts["outstanding"] = "at most " + v.Texts["outstanding"]
	}
	for _, b := range p.Back {
		permits := count(b.Permits, "permit")
		if b.Permits == l.Config.Rate {
			permits = "all of " + permits
		}
		v.Back = append(v.Back, [2]string{permits, when(b.In)})
	}
	v.Texts["all_back"] = "never"
	if k := len(p.Back); k > 0 {
		v.Texts["all_back"] = when(p.Back[k-1].In)
	}
	v.Bars = windowOf(l, p, l.Config.Interval)
	v.Recent = windowOf(l, p, recent.Milliseconds())
}

// windowOf returns the permits of the records in a span of time, in bars.
func windowOf(l *inspect.Limiter, p *inspect.Pair, span int64) (window [][2]int64) {
	for _, g := range l.Window(p, span, bars) {
		window = append(window, [2]int64{g.ByGo, g.ByOthers})
	}
	return window
}

// debt returns the debt of a pair, and when it is paid, if that is known.
func debt(p *inspect.Pair) string {
	text := "In debt by "
	if p.AtLeast {
		text += "at most "
	}
	text += count(p.Debt, "permit")
	if p.PaidIn != inspect.Unknown {
		text += ", paid " + when(p.PaidIn)
	}
	return text + "."
}

// when says in how many ms permits are back.
func when(ms int64) string {
	switch {
	case ms == inspect.Unknown:
		return "unknown"
	case ms <= 0:
		return "now"
	}
	return "in " + span(ms)
}

// grants compares with the look before.
func (v *view) grants(l, before *inspect.Limiter, id string) {
	c := l.Since(before, id)
	v.Elapsed = max(l.At.Sub(before.At).Milliseconds(), 1)
	v.ByGo, v.ByOthers = c.ByGo, c.ByOthers
	least := ""
	if c.AtLeast {
		least = "at least "
	}
	per := func(n int64) string {
		rate := fmt.Sprintf("%.1f", float64(n)*1000/float64(v.Elapsed))
		return least + strings.TrimSuffix(rate, ".0") + "/s"
	}
	v.Texts["by_go"], v.Texts["by_others"] = per(c.ByGo), per(c.ByOthers)
	v.Texts["released"] = per(c.Released)
	v.Texts["refused"] = "about " + strings.TrimPrefix(per(c.Refused), least)
}

// keys copies keys and findings, with the names that viewers may see.
func (v *view) keys(l *inspect.Limiter, id string, h *Handler) {
	if h.config.Mask {
		l, id = l.Masked(h.masks.mask), h.public(id)
	}
	for i, key := range l.Keys {
		used := i == 0 || (l.Pairs[(i-1)/2].ID == id && (id != "" || !v.perClient))
		if !used && !key.There() {
			continue
		}
		ttl := "does not expire"
		switch {
		case !key.There():
			ttl = ""
		case key.TTL >= 0:
			ttl = span(key.TTL)
		}
		kind := key.Kind
		if kind == "none" {
			kind = "missing"
		}
		v.Keys = append(v.Keys, [3]string{shown(key.Name), kind, ttl})
	}
	for _, f := range l.Findings {
		if f.ID == "" || f.ID == id {
			v.Findings = append(v.Findings, finding{f.Label, f.What, f.Mend, f.Remark})
		}
	}
}

// summary is the page in a sentence or two, for a screen reader.
func (v *view) summary() {
	switch {
	case v.State == stateGone:
		v.Texts["summary"] = "No rate is set."
		return
	case v.Pair:
		v.Texts["summary"] = fmt.Sprintf("%s of %s remain.", number(v.Remaining), count(v.Rate, "permit"))
	default:
		v.Texts["summary"] = "Each client has permits of its own."
	}
	v.Texts["alarm"] = v.alarm()
	v.Texts["health"] = "nothing is wrong"
	if n := len(v.Findings); n > 0 {
		v.Texts["health"] = count(int64(n), "finding")
		v.Texts["summary"] += " " + strings.ToUpper(v.Texts["health"][:1]) + v.Texts["health"][1:] + "."
	}
}

// alarm is the first finding that is no remark, for the head of the page.
func (v *view) alarm() string {
	for _, f := range v.Findings {
		if !f.Remark {
			return "Broken: " + f.What
		}
	}
	return ""
}
