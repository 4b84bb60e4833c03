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

// A Pair holds the remaining permits (a string), and a record of each grant (a
// sorted set). All clients of an OVERALL limiter share one; each client of a
// PER_CLIENT limiter has its own.
type Pair struct{ Value, Permits string }

// KeysOf returns the keys of the limiter in hash, for the client with this id.
func KeysOf(hash, id string) Keys {
	pairs := [2]Pair{PairOf(hash, id, Overall), PairOf(hash, id, PerClient)}
	return Keys{Hash: hash, Pairs: pairs, Changed: ChangedOf(hash)}
}

// PairOf returns the pair that the client with this id uses of a limiter of one
// type.
func PairOf(hash, id string, typ int) Pair {
	shared := Pair{suffixed(hash, "value"), suffixed(hash, "permits")}
	if typ == Overall {
		return shared
	}
	return Pair{suffixed(shared.Value, id), suffixed(shared.Permits, id)}
}

// ChangedOf returns Keys.Changed.
func ChangedOf(hash string) string { return suffixed(hash, "changed") }

// All returns the five keys: the hash, the shared pair and the client's own.
func (k *Keys) All() []string {
	shared, private := k.Pairs[0], k.Pairs[1]
	return []string{k.Hash, shared.Value, shared.Permits, private.Value, private.Permits}
}

// OneSlot reports whether a cluster keeps all keys of the limiter in hash in one
// slot. A name without braces becomes the hash tag of the other keys; braces must
// be a hash tag themselves.
func OneSlot(hash string) bool { return !strings.ContainsAny(hash, "{}") || tag(hash) != hash }

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

// tag is the part of a key by which a cluster chooses its slot: the text between
// the first { and the next }, or all of the key if that text is empty.
func tag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}
