package wire

import "strings"

// Keys are the keys of one limiter, as Redisson names them.
type Keys struct {
	Hash  string  // NAME: rate, interval, type, keepAliveTime, and the sessions of Go
	Pairs [2]Pair // by the type of the limiter: OVERALL, PER_CLIENT

	// Changed is the channel on which scripts of Go say that waiters may be served
	// earlier. Java does not know it.
	Changed string
}

// A Pair is what is left of the permits (a string), and who took the others (a
// sorted set). All clients of an OVERALL limiter share one; each client of a
// PER_CLIENT limiter has its own.
type Pair struct{ Value, Permits string }

// KeysOf returns the keys of the limiter in hash, for the client with this id.
func KeysOf(hash, id string) Keys {
	shared := Pair{suffixed(hash, "value"), suffixed(hash, "permits")}
	own := Pair{suffixed(shared.Value, id), suffixed(shared.Permits, id)}
	return Keys{Hash: hash, Pairs: [2]Pair{shared, own}, Changed: suffixed(hash, "changed")}
}

// All returns the five keys: the hash, the shared pair and the client's own.
func (k *Keys) All() []string {
	shared, own := k.Pairs[0], k.Pairs[1]
	return []string{k.Hash, shared.Value, shared.Permits, own.Value, own.Permits}
}

// OneSlot reports whether a cluster keeps all five keys in one slot.
func (k *Keys) OneSlot() bool {
	for _, key := range k.All() {
		if !SameSlot(key, k.Hash) {
			return false
		}
	}
	return true
}

// SameSlot reports whether a cluster keeps two keys in the same slot because of
// their names. Other names share a slot by chance, one pair in 16,384.
func SameSlot(a, b string) bool { return tag(a) == tag(b) }

// suffixed is RedissonObject.suffixName: a name with a brace is taken to have a
// hash tag already.
func suffixed(name, suffix string) string {
	if strings.Contains(name, "{") {
		return name + ":" + suffix
	}
	return "{" + name + "}:" + suffix
}

// tag is the part of a key by which a cluster chooses its slot: what is between
// the first { and the next }, or all of the key when there is nothing.
func tag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}
