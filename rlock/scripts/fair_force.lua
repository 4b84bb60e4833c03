-- fair_force.lua: unlocks a fair lock for any holder, and notifies the next owner.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue: a list of owners, the first one next
-- KEYS[3]  a sorted set: when the place of each owner expires, in ms
-- KEYS[4]  the prefix of the channels of the owners
-- ARGV[1]  1 if the channels are sharded ones
-- Reply:   1 if there was a lock, otherwise 0; an error if a rate limiter has this name

-- include parts/limiter.lua
-- The hash may be huge if it is not a lock.
local there = redis.call('UNLINK', KEYS[1])
-- include parts/now.lua
-- include parts/purge.lua
-- include parts/notify.lua
return there
