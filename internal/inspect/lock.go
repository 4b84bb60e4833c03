package inspect

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A Lock is what Redis holds of one lock at one moment.
type Lock struct {
	Name string    `json:"name"` // of the hash
	At   time.Time `json:"at"`   // by the clock of the Redis server
	Kind LockKind  `json:"lock"`

	Owners []Owner `json:"owners"` // who holds it: one, or none if it is free

	// Token is the last one of a fenced lock, as Redis has it, cut off after 40 bytes.
	Token string `json:"token,omitempty"`

	Waiters []Waiter `json:"waiters"` // of a fair lock, the next first
	Waiting int64    `json:"waiting"` // all of them, of which Waiters are the first

	// Latches are the keys that say that a hold has ended, if they were looked for.
	Latches *Latches `json:"latches,omitempty"`

	Keys     []Key     `json:"keys"`     // the hash, the token, the queue, the timeouts
	Findings []Finding `json:"findings"` // what is wrong; empty if nothing is

	fields    int64 // of the hash
	timeouts  int64 // members of the sorted set
	allScores bool  // each of them was read
	split     bool  // a cluster keeps the keys in different slots
	apart     bool  // they are on different servers, so that only the hash was read
}

// A LockKind is how a lock is used, as far as its keys tell.
type LockKind string

// The kinds of locks. One that was never fenced or waited for fairly looks plain.
const (
	Plain  LockKind = "plain"
	Fenced LockKind = "fenced" // there is a token
	Fair   LockKind = "fair"   // there is a queue
)

// The indexes of the keys of a Lock.
const (
	lockHash = iota
	lockToken
	lockQueue
	lockTimeouts
)

// An Owner is a field of the hash: who holds the lock.
type Owner struct {
	Name  string `json:"owner"` // the ID of a Client, a colon and a number
	Count int64  `json:"count"` // how often it holds the lock
}

// A Waiter is an owner that waits for a fair lock.
type Waiter struct {
	Owner string     `json:"owner"`
	Until *time.Time `json:"until"` // when it counts as dead; nil if Redis does not know
	Dead  bool       `json:"dead"`  // that time has come
}

// Latches are keys of a lock, as far as they were found.
type Latches struct {
	Found   int  `json:"found"`
	AtLeast bool `json:"at_least"` // not all keys of the server were looked at
}

// There reports whether there is anything of a lock: somebody holds it, or waits for it, or has held it
// as a fenced lock.
func (l *Lock) There() bool {
	beside := func(k Key) bool { return k.There() }
	return len(l.Owners) > 0 || !l.Keys[lockHash].There() && slices.ContainsFunc(l.Keys[1:], beside)
}

// Holds reports whether the lock is as it should be: nothing was found that is wrong.
func (l *Lock) Holds() bool { return allRemarks(l.Findings) }

// TTL returns the ms that the lock is held unless it is renewed, as PTTL says it.
func (l *Lock) TTL() int64 { return l.Keys[lockHash].TTL }

// listable reports whether the hash is a lock for sure enough to be listed: what has other ids than
// Redisson and Clients give themselves has a TTL at least, as each lock has.
func (l *Lock) listable() bool {
	byUUID := func(o Owner) bool {
		id, _, _ := cutOwner(o.Name)
		return uuid.Validate(id) == nil
	}
	return len(l.Owners) > 0 && (l.TTL() >= 0 || !slices.ContainsFunc(l.Owners,
		func(o Owner) bool { return !byUUID(o) }))
}

// mostOwners is how many fields a hash may have that is taken for a lock. More than one is a fault.
const mostOwners = 4

// cutOwner splits the name of an owner, ID:number, and reports whether it is one.
func cutOwner(field string) (id, number string, ok bool) {
	i := strings.LastIndexByte(field, ':')
	if i < 1 {
		return "", "", false
	}
	id, number = field[:i], field[i+1:]
	_, err := strconv.ParseInt(number, 10, 64) // as Java: async calls may pass any long
	if err != nil {
		_, err = strconv.ParseUint(number, 10, 64)
	}
	return id, number, err == nil && number[0] != '+'
}

// owners returns who holds a lock, by fields and values of its hash, nil if that is no lock.
func owners(page []string) (found []Owner) {
	for pair := range slices.Chunk(page, 2) {
		if len(pair) < 2 {
			return nil
		}
		count, err := strconv.ParseInt(pair[1], 10, 64)
		if _, _, ok := cutOwner(pair[0]); !ok || err != nil {
			return nil
		}
		found = append(found, Owner{pair[0], count})
	}
	return found
}

// kind returns the kind of a lock by its keys.
func (l *Lock) kind() LockKind {
	switch {
	case l.Keys[lockQueue].There() || l.Keys[lockTimeouts].There():
		return Fair
	case l.Keys[lockToken].There():
		return Fenced
	}
	return Plain
}
