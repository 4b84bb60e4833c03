package inspect

import (
	"slices"
	"strings"
	"time"
)

// A Limiter is what Redis holds of one limiter at one moment.
type Limiter struct {
	Name   string    `json:"name"` // of the hash
	At     time.Time `json:"at"`   // by the clock of the Redis server
	Set    bool      `json:"set"`  // rate, interval and type are there
	Config Config    `json:"config"`

	Keys     []Key     `json:"keys"` // the hash, then those of each of Pairs
	Sessions []Session `json:"sessions"`
	Fields   int64     `json:"fields"` // of the hash, sessions among them
	Pairs    []Pair    `json:"pairs"`
	Clients  int       `json:"clients"` // of a PER_CLIENT limiter that have keys, if a Scan has read it

	Findings []Finding `json:"findings"` // what is wrong; empty if nothing is

	split bool // a cluster keeps the keys in different slots
	apart bool // they are on different servers, so that the pairs were not read
}

// A Config is the hash without its sessions. A text that is no integer has the number 0,
// and a Finding.
type Config struct {
	Type      string `json:"type"` // OVERALL, PER_CLIENT, or empty
	Rate      int64  `json:"rate"`
	Interval  int64  `json:"interval_ms"`
	KeepAlive int64  `json:"keep_alive_ms"` // 0: none

	bad   []string // fields that are no integers, with what they hold
	turns int64    // until when versions with a longer interval may come back, Unix ms
}

// Unreadable returns the fields that are no integers, with what they hold; empty if there are none.
func (c *Config) Unreadable() string { return strings.Join(c.bad, ", ") }

// PerClient reports whether each client has a pair of its own.
func (c *Config) PerClient() bool { return c.Type == perClient }

const overall, perClient = "OVERALL", "PER_CLIENT"

// A Key is one key of a limiter.
type Key struct {
	Name string `json:"name"`
	Kind string `json:"kind"`   // as TYPE says it: hash, string, zset; none if it is not there
	TTL  int64  `json:"ttl_ms"` // as PTTL says it: -1 for no end, -2 for no key
}

// There reports whether the key exists.
func (k *Key) There() bool { return k.Kind != none }

// What TYPE and PTTL say of a key that is not there.
const (
	none  = "none"
	noKey = -2
)

// A Session is a field that a Go Client keeps in the hash: its last request.
type Session struct {
	Field  string    `json:"field"`
	Number int64     `json:"number"` // of the request; a Client counts over all its limiters
	At     time.Time `json:"at"`
	Amount int64     `json:"amount"` // permits it took; below 0: that it gave back

	// Rate is that for which the value of the client is right, in a PER_CLIENT limiter; 0 elsewhere.
	Rate int64 `json:"rate,omitempty"`
}

// A Pair is a value and its records: the one that all clients share, or that of one client.
type Pair struct {
	ID string `json:"id,omitempty"` // of the client; empty for the pair that is shared

	HasValue bool   `json:"has_value"` // the key is there
	Value    string `json:"value"`     // as Redis has it, cut off after 40 bytes
	Number   int64  `json:"number"`    // what Value means, if Counts
	Counts   bool   `json:"counts"`    // Value is an integer

	Total   int64    `json:"total_records"`
	Records []Record `json:"records"` // oldest first: all, or the oldest and the newest
	Unread  int64    `json:"unread"`  // records between those two parts, which were not read
	Gap     int      `json:"-"`       // the index in Records at which they are missing

	// Permits that have not come back: by the records, or by the value if not all were read.
	Outstanding int64 `json:"outstanding"`
	// Permits of records whose interval is over, but which no call has removed yet.
	Over int64 `json:"over"`

	Remaining int64    `json:"remaining"` // permits that Go would grant now
	AtLeast   bool     `json:"at_least"`  // Remaining may be more: records that are over were not read
	Drift     int64    `json:"drift"`     // Value + permits of all records - rate, if Checked
	Checked   bool     `json:"checked"`   // all records were read, and Value is an integer or not there
	Back      []Return `json:"back"`      // when 1 permit, a tenth and all of the rate are there
}

// A Record is one member of the sorted set.
type Record struct {
	At      time.Time `json:"at"`      // when its permits were taken, by its score
	Permits int64     `json:"permits"` // its last four bytes
	Format  string    `json:"format"`  // of Redisson; empty if no version writes such a record
	ByGo    bool      `json:"by_go"`   // it bears the mark of Go
	Merged  bool      `json:"merged"`  // it is of several grants (WithResolution)
	Ahead   bool      `json:"ahead"`   // it is dated after the clock of the server
	Over    bool      `json:"over"`    // its interval is over; it is removed by a later call

	score float64
}

// A Return is a number of permits, and how long it takes until they are there.
type Return struct {
	Permits int64 `json:"permits"`
	In      int64 `json:"in_ms"` // 0: they are there now; Unknown: it depends on records that were not read
}

// Unknown is the time of a Return that nobody can tell.
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

// Holds reports whether the limiter is as it should be: nothing was found that is wrong. A
// pair that could not be checked, because of too many records, does not make it false.
func (l *Limiter) Holds() bool { return allRemarks(l.Findings) }

// Masked returns the limiter with other names and ids, for those who may see its numbers only. mask
// returns what stands for a name or an id.
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
