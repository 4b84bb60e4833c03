-- fair_unlock.lua: ends the hold of an owner of a fair lock, or its place in the queue, and notifies the
-- next owner if the lock is free. A copy of a request gets the first reply.
--
-- KEYS[1]  the lock: a hash whose field OWNER is how often that owner holds it
-- KEYS[2]  the queue: a list of owners, the first one next
-- KEYS[3]  a sorted set: when the place of each owner expires, in ms
-- KEYS[4]  the prefix of the channels of the owners
-- KEYS[5]  the idempotency key of the owner, which exists after the owner has left
-- ARGV[1]  1 if the channels are sharded ones
-- ARGV[2]  the owner
-- ARGV[3]  the time to live of the idempotency key, in ms
-- Reply:   {1 if the owner held the lock, otherwise 0; number of notified clients}

local owner = ARGV[2]
local had = redis.call('HEXISTS', KEYS[1], owner)
local ended = had == 0 and redis.call('GET', KEYS[5])
if ended then
  return {ended == '0' and 0 or 1, 0}
end
-- Removals come first, because a server without memory allows them, and then all commands after them.
local waited = redis.call('ZREM', KEYS[3], owner) == 1
if had == 1 then
  redis.call('DEL', KEYS[1])
end
redis.call('SET', KEYS[5], had, 'PX', ARGV[3])
-- include parts/now.lua
if waited or had == 0 then
  -- include parts/java.lua
  local SOME, rank = 1000, nil -- owners that are looked at
  local queue = redis.call('LRANGE', KEYS[2], '0', SOME - 1)
  for i = 1, #queue - 1 do
    local alone = not string.find(queue[i + 1], GO) and (i == 1 or not string.find(queue[i - 1], GO))
    if queue[i] == owner and alone then
      rank = i - 1
    end
  end
  redis.call('LREM', KEYS[2], '0', owner)
  if rank then
    -- include parts/lower.lua
  end
end
-- include parts/purge.lua
if redis.call('EXISTS', KEYS[1]) == 1 then
  return {had, 0}
end
-- include parts/notify.lua
return {had, notified}
