-- unlock.lua: ends a hold, or leaves it fewer times. The lock is handed on to who is next in the same
-- process, or those that wait for it are told. A request that was carried out before gets its first reply.
--
-- KEYS[1]  the lock: a hash, in which the field of the owner is how often it holds the lock
-- KEYS[2]  the latch of the hold, which is there once the hold has ended
-- KEYS[3]  the token that was given last, of a fenced lock only
-- ARGV[1]  the owner
-- ARGV[2]  how often it holds the lock then: 0 ends the hold
-- ARGV[3]  the lease of what it still holds, or of the owner after it, in ms
-- ARGV[4]  how long the latch lasts, in ms
-- ARGV[5]  1 if the channel is a sharded one
-- ARGV[6]  the channel of the lock
-- ARGV[7]  the owner to hand the lock on to, if there is one
-- Reply:   {1, how many clients were told}; {2, the token of that owner, 0 without one} if it was handed on;
--          {0, 0} if the lock was not held

local owner, left, lease, heir = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[7]
local latch = redis.call('GET', KEYS[2])
if latch == '2' and heir and redis.call('HEXISTS', KEYS[1], heir) == 1 then
  return {2, KEYS[3] and tonumber(redis.call('GET', KEYS[3])) or 0}
elseif latch then
  return {latch == '0' and 0 or 1, 0}
end
local held = redis.call('HEXISTS', KEYS[1], owner)
if left > 0 then
  if held == 1 then
    redis.call('HSET', KEYS[1], owner, left)
    redis.call('PEXPIRE', KEYS[1], lease)
  end
  return {held, 0}
elseif held == 0 then
  redis.call('SET', KEYS[2], '0', 'PX', ARGV[4])
  return {0, 0}
end
if heir then
  -- include parts/token.lua
  if type(token) == 'number' then -- otherwise nobody can take the lock
    -- The new owner is there before the old one goes: a hash that is empty is gone.
    redis.call('HSET', KEYS[1], heir, 1)
    redis.call('HDEL', KEYS[1], owner)
    redis.call('PEXPIRE', KEYS[1], lease)
    redis.call('SET', KEYS[2], '2', 'PX', ARGV[4])
    return {2, token}
  end
end
-- DEL comes first, for a server that is out of memory allows it, and what follows it.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], '1', 'PX', ARGV[4])
local told = 0 -- a user who may not publish unlocks all the same
if ARGV[5] == '1' then
  told = redis.pcall('SPUBLISH', ARGV[6], '0')
else
  told = redis.pcall('PUBLISH', ARGV[6], '0')
end
return {1, tonumber(told) or 0}
