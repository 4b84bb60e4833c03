package wire

import "strings"

// LockKeys are the keys and channels of one lock, as Redisson names them.
type LockKeys struct {
	Hash            string // NAME: the field of the owner, with how often it holds the lock
	Channel         string // of the messages of unlocks; of a fair lock, the prefix of its waiters' channels
	IdempotencyKeys string // the prefix of the idempotency key of each hold
	Token           string // of a fenced lock: the token that was given last
	Queue           string // of a fair lock: the owners that wait, a list
	Timeout         string // of a fair lock: until when each of them counts, a sorted set
}

// LockKeysOf returns the keys of the lock in hash.
func LockKeysOf(hash string) LockKeys {
	return LockKeys{
		Hash:            hash,
		Channel:         prefixed("redisson_lock__channel", hash),
		IdempotencyKeys: prefixed("redisson_unlock_latch", hash) + ":",
		Token:           prefixed("redisson_lock_token", hash),
		Queue:           prefixed("redisson_lock_queue", hash),
		Timeout:         prefixed("redisson_lock_timeout", hash),
	}
}

// IdempotencyKey returns the key that says that a hold has ended.
func (k *LockKeys) IdempotencyKey(hold string) string { return k.IdempotencyKeys + hold }

// OneSlot reports whether a cluster keeps all keys of the lock in one slot. Those
// beside the hash differ only in their prefixes.
func (k *LockKeys) OneSlot() bool { return SameSlot(k.Hash, k.Channel) }

// prefixed is RedissonObject.prefixName: a name with a brace is taken to have a hash
// tag already.
func prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}
