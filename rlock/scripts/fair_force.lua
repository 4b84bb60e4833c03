-- fair_force.lua: unlocks whoever holds a fair lock, and tells the next one.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue: a list of owners, the next one first
-- KEYS[3]  when the place of each of them ends, in ms: a sorted set
-- KEYS[4]  what the channel of each owner begins with
-- ARGV[1]  1 if the channels are sharded ones
-- Reply:   1 if there was a lock, otherwise 0; an error if a rate limiter has the name

-- include parts/limiter.lua
-- The hash may be huge, if it is no lock.
local there = redis.call('UNLINK', KEYS[1])
-- include parts/now.lua
-- include parts/purge.lua
-- include parts/tell.lua
return there
