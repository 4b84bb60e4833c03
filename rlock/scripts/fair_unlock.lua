-- fair_unlock.lua: ends what an owner has of a fair lock, its hold or its place in the queue, and tells the
-- next one if the lock is free. A request that was carried out before gets its first reply.
--
-- KEYS[1]  the lock: a hash, in which the field of the owner is how often it holds the lock
-- KEYS[2]  the queue: a list of owners, the next one first
-- KEYS[3]  when the place of each of them ends, in ms: a sorted set
-- KEYS[4]  what the channel of each owner begins with
-- KEYS[5]  the latch of the owner, which is there once it has left
-- ARGV[1]  1 if the channels are sharded ones
-- ARGV[2]  the owner
-- ARGV[3]  how long the latch lasts, in ms
-- Reply:   {1 if the owner held the lock, otherwise 0; how many clients were told}

local owner = ARGV[2]
local latch = redis.call('GET', KEYS[5])
if latch then
  return {latch == '0' and 0 or 1, 0}
end
-- DEL comes first, for a server that is out of memory allows it, and what follows it.
local had = redis.call('HEXISTS', KEYS[1], owner)
if had == 1 then
  redis.call('DEL', KEYS[1])
end
redis.call('SET', KEYS[5], had, 'PX', ARGV[3])
if redis.call('ZREM', KEYS[3], owner) == 1 or had == 0 then
  redis.call('LREM', KEYS[2], 0, owner)
end
-- include parts/now.lua
-- include parts/purge.lua
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {had, 0}
end
-- include parts/tell.lua
return {had, told}
