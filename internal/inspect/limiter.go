package inspect

import (
	"math"
	"slices"
	"strings"
	"time"
)

// A Limiter is the state of a limiter in Redis at one moment.
type Limiter struct {
	Name   string    `json:"name"` // of the hash
	At     time.Time `json:"at"`   // by the clock of the Redis server
	Set    bool      `json:"set"`  // rate, interval and type exist
	Config Config    `json:"config"`

	Keys     []Key     `json:"keys"` // the hash, then those of each of Pairs
	Sessions []Session `json:"sessions"`
	Fields   int64     `json:"fields"` // of the hash, sessions among them
	Pairs    []Pair    `json:"pairs"`
	Clients  int       `json:"clients"` // of a PER_CLIENT limiter that have keys, if a Scan counted them

	Findings []Finding `json:"findings"` // what is wrong; empty if nothing is

	split bool // a cluster keeps the keys in different slots
	apart bool // the keys are on different servers, so the pairs were not read
}

// A Config is the hash without its sessions. A field that is not an integer counts as 0, and is a Finding.
type Config struct {
	Type      string `json:"type"` // OVERALL, PER_CLIENT, or empty
	Rate      int64  `json:"rate"`
	Interval  int64  `json:"interval_ms"`
	KeepAlive int64  `json:"keep_alive_ms"` // 0: none

	bad   []string // fields that are not integers, with their texts
	turns int64    // until when versions with a longer interval may come back, Unix ms
}

// Unreadable returns the fields that are not integers, with their texts; empty if there are none.
func (c *Config) Unreadable() string { return strings.Join(c.bad, ", ") }

// PerClient reports whether each client has a pair of its own.
func (c *Config) PerClient() bool { return c.Type == perClient }

const overall, perClient = "OVERALL", "PER_CLIENT"

// A Key is one key of a limiter.
type Key struct {
	Name string `json:"name"`
	Kind string `json:"kind"`   // of TYPE: hash, string, zset; none for a missing key
	TTL  int64  `json:"ttl_ms"` // of PTTL: -1 for no end, -2 for a missing key
}

// There reports whether the key exists.
func (k *Key) There() bool { return k.Kind != none }

// The replies of TYPE and PTTL for a missing key.
const (
	none  = "none"
	noKey = -2
)

// A Session is the field of the hash in which a Go Client keeps its last request.
type Session struct {
	Field  string    `json:"field"`
	Number int64     `json:"number"` // of the request; a Client counts over all its limiters
	At     time.Time `json:"at"`
	Amount int64     `json:"amount"` // permits taken; below 0: given back

	// Rate is the rate that the request found, in a PER_CLIENT limiter; 0 elsewhere.
	Rate int64 `json:"rate,omitempty"`
}

// A Pair is a value and its records, shared by all clients or of one client.
type Pair struct {
	ID string `json:"id,omitempty"` // of the client; empty for the shared pair

	HasValue bool   `json:"has_value"` // the key exists
	Value    string `json:"value"`     // its first 40 bytes
	Number   int64  `json:"number"`    // Value as a number, if Counts
	Counts   bool   `json:"counts"`    // Value is an integer

	Total   int64    `json:"total_records"`
	Records []Record `json:"records"` // oldest first: all, or the oldest and the newest
	Unread  int64    `json:"unread"`  // records between the two parts
	Gap     int      `json:"-"`       // the index in Records of the gap that they leave

	// Permits that are taken: by the records, or by the value if not all records were read.
	Outstanding int64 `json:"outstanding"`
	// The part of Outstanding that is leased: a Client of Go hands them out or gives them back (WithLease).
	Leased int64 `json:"leased"`
	// Permits of expired records that no call has removed yet.
	Over int64 `json:"over"`

	Remaining int64    `json:"remaining"`       // permits that Go would grant now
	Debt      int64    `json:"debt"`            // permits that are taken beyond the rate; 0 if any remain
	PaidIn    int64    `json:"debt_paid_in_ms"` // 0 without a debt; Unknown if it depends on unread records
	AtLeast   bool     `json:"at_least"`        // expired records are unread: more may remain, or less debt
	Drift     int64    `json:"drift"`           // Value + permits of all records - rate, if Checked
	Checked   bool     `json:"checked"`         // all records were read, and Value is an integer or missing
	valueRate int64    // of Value, by its voucher, in a PER_CLIENT limiter; math.MinInt64 if none is known
	valueMs   int64    // its interval, by the same voucher
	Back      []Return `json:"back"` // when 1 permit, a tenth and all of the rate are available
}

// A Record is one member of the sorted set.
type Record struct {
	At      time.Time `json:"at"`      // when its permits were taken, by its score
	Permits int64     `json:"permits"` // its last four bytes
	Format  string    `json:"format"`  // of Redisson; empty if no version writes such a record
	ByGo    bool      `json:"by_go"`   // it bears the mark of Go
	Lease   bool      `json:"lease"`   // it is, or was, dated by the end of a lease (WithLease)
	Ahead   bool      `json:"ahead"`   // it is dated after the clock of the server
	Over    bool      `json:"over"`    // it has expired; a later call removes it

	score float64
}

// A Return is a number of permits, and the time until they are available.
type Return struct {
	Permits int64 `json:"permits"`
	In      int64 `json:"in_ms"` // 0 for now; Unknown if it depends on unread records
}

// Unknown stands for a number that the keys do not determine.
const Unknown = -1

// Shared returns the pair without an ID, nil if it was not read.
func (l *Limiter) Shared() *Pair { return l.PairOf("") }

// PairOf returns the pair of a client, nil if it was not read.
func (l *Limiter) PairOf(id string) *Pair {
	for i := range l.Pairs {
		if l.Pairs[i].ID == id {
			return &l.Pairs[i]
		}
	}
	return nil
}

// InUse returns the pairs that the type of the limiter uses.
func (l *Limiter) InUse() []*Pair {
	var pairs []*Pair
	for i := range l.Pairs {
		if (l.Pairs[i].ID != "") == l.Config.PerClient() {
			pairs = append(pairs, &l.Pairs[i])
		}
	}
	return pairs
}

// Holds reports whether the permits of the limiter are right. A pair that was not checked, because it has too
// many records, does not count as wrong.
func (l *Limiter) Holds() bool { return allRemarks(l.Findings) }

// Masked returns the limiter with masked names and ids, for viewers that may see only its numbers.
func (l *Limiter) Masked(mask func(string) string) *Limiter {
	m := *l
	m.Name, m.Keys, m.Pairs = mask(l.Name), slices.Clone(l.Keys), slices.Clone(l.Pairs)
	m.Keys[0].Name = m.Name
	for i := range m.Pairs {
		pair := &m.Pairs[i]
		if pair.ID != "" {
			pair.ID = mask(pair.ID)
		}
		keys := keysOf(m.Name, pair.ID)
		m.Keys[1+2*i].Name, m.Keys[2+2*i].Name = keys.Value, keys.Permits
	}
	m.Findings = m.find()
	return &m
}

// keysOf returns the keys of a pair, among those of the limiter.
func (l *Limiter) keysOf(p *Pair) (value, permits *Key) {
	i := slices.IndexFunc(l.Pairs, func(other Pair) bool { return other.ID == p.ID })
	return &l.Keys[1+2*i], &l.Keys[2+2*i]
}

// A Change is what happened to a pair between two readings.
type Change struct {
	ByGo     int64 `json:"by_go"`     // permits granted by Go
	ByOthers int64 `json:"by_others"` // permits granted by Java, or any other author of records
	Released int64 `json:"released"`  // permits removed from earlier records

	// AtLeast says that not all new records were read.
	AtLeast bool `json:"at_least"`

	// Seen is the time before the later reading that the permits cover: back to the earlier reading, or less
	// if that is longer ago than the interval, or if records were not read.
	Seen time.Duration `json:"seen_ns"`

	// Refused is an estimate of the refused requests of Go. A refusal writes nothing, so the estimate counts
	// the request numbers of the sessions that left no record. It is too high for a Client of several
	// limiters, which numbers its requests over all of them, and includes a Client only after its next grant.
	// Refusals of Java are unknown.
	Refused int64 `json:"refused_estimate"`
}

// Since compares a pair with the same pair at an earlier reading.
func (l *Limiter) Since(before *Limiter, id string) Change {
	var c Change
	now, then := l.PairOf(id), before.PairOf(id)
	if now == nil || then == nil {
		return c
	}
	// A record that one reading left unread says nothing: compare the records after the unread part, and only
	// those that have expired in neither reading.
	from := math.Max(now.readFrom(), then.readFrom())
	ended := float64(l.At.UnixMilli() - l.Config.Interval)
	// Records of the same ms are summed, because a repair rewrites records of other authors.
	type sum struct{ byGo, byOthers, records int64 }
	sums := map[float64]sum{}
	count := func(records []Record, sign int64) {
		for _, r := range records {
			s := sums[r.score]
			if s.records += sign; r.ByGo {
				s.byGo += sign * r.Permits
			} else {
				s.byOthers += sign * r.Permits
			}
			sums[r.score] = s
		}
	}
	count(then.Records, -1)
	count(now.Records, 1)
	granted := int64(0) // requests that left a record
	for score, more := range sums {
		all := more.byGo + more.byOthers
		switch {
		case score < from || score <= ended || all == 0:
		case all < 0:
			c.Released -= all
			granted++
		default:
			byGo := min(max(more.byGo, 0), all)
			c.ByGo += byGo
			c.ByOthers += all - byGo
			if byGo > 0 {
				granted += max(1, more.records)
			}
		}
	}
	c.AtLeast = now.readFrom() > then.latest()
	passed := l.At.Sub(before.At)
	seen := min(float64(l.At.UnixMilli())-math.Max(from, ended), float64(passed.Milliseconds()))
	c.Seen = time.Duration(max(0, seen)) * time.Millisecond
	if c.Seen > 0 {
		granted = int64(float64(granted) * float64(passed) / float64(c.Seen))
	}
	c.Refused = max(0, l.requests(before)-granted)
	return c
}

// readFrom returns the time after which all records were read.
func (p *Pair) readFrom() float64 {
	if p.Unread == 0 || p.Gap >= len(p.Records) {
		return math.Inf(-1)
	}
	return p.Records[p.Gap].score
}

// latest returns the time of the newest record.
func (p *Pair) latest() float64 {
	if len(p.Records) == 0 {
		return math.Inf(-1)
	}
	return p.Records[len(p.Records)-1].score
}

// requests returns the number of requests of Go since an earlier reading, according to the sessions in both.
func (l *Limiter) requests(before *Limiter) (n int64) {
	numbers := make(map[string]int64, len(before.Sessions))
	for _, s := range before.Sessions {
		numbers[s.Field] = s.Number
	}
	for _, s := range l.Sessions {
		if earlier, ok := numbers[s.Field]; ok {
			n += max(0, s.Number-earlier)
		}
	}
	return n
}

// Grants are the permits taken in a span of time, by the author of the records.
type Grants struct{ ByGo, ByOthers int64 }

// Window divides the last span ms into parts and returns the permits taken in each, the oldest first; nil if
// span or parts is below 1. Records dated ahead are in the last part.
func (l *Limiter) Window(p *Pair, span int64, parts int) []Grants {
	if span < 1 || parts < 1 {
		return nil
	}
	window := make([]Grants, parts)
	from := float64(l.At.UnixMilli() - span)
	for _, r := range p.Records {
		if r.Over || r.score < from {
			continue
		}
		at := (r.score - from) / float64(span) * float64(parts)
		part := &window[int(max(0, min(at, float64(parts-1))))]
		if r.ByGo {
			part.ByGo += r.Permits
		} else {
			part.ByOthers += r.Permits
		}
	}
	return window
}
