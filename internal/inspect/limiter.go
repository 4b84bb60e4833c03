package inspect

import (
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
	apart bool // they are on different servers, so that the pairs were not read
}

// A Config is the hash without its sessions. A field that is no integer counts as 0, and is a Finding.
type Config struct {
	Type      string `json:"type"` // OVERALL, PER_CLIENT, or empty
	Rate      int64  `json:"rate"`
	Interval  int64  `json:"interval_ms"`
	KeepAlive int64  `json:"keep_alive_ms"` // 0: none

	bad   []string // fields that are no integers, with their texts
	turns int64    // until when versions with a longer interval may come back, Unix ms
}

// Unreadable returns the fields that are no integers, with their texts; empty if there are none.
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
	// Those of them that are leased: a Client of Go hands them out or gives them back (WithLease).
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
	Back      []Return `json:"back"` // when 1 permit, a tenth and all of the rate are available
}

// A Record is one member of the sorted set.
type Record struct {
	At      time.Time `json:"at"`      // when its permits were taken, by its score
	Permits int64     `json:"permits"` // its last four bytes
	Format  string    `json:"format"`  // of Redisson; empty if no version writes such a record
	ByGo    bool      `json:"by_go"`   // it bears the mark of Go
	Merged  bool      `json:"merged"`  // it stands for several grants (WithResolution)
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

// Holds reports whether nothing is wrong with the limiter. A pair that was not checked, because of too many
// records, does not count as wrong.
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
