-- unlock.lua: ends a hold, or one Relock of it. An ended hold hands the lock to the next waiter of the
-- same process, or notifies all waiters. A copy of a request gets the first reply.
--
-- KEYS[1]  the lock: a hash whose field OWNER is how often that owner holds it
-- KEYS[2]  the idempotency key of the hold, which exists after the hold has ended
-- KEYS[3]  the last token, of a fenced lock only
-- ARGV[1]  the owner
-- ARGV[2]  how often it holds the lock then: 0 ends the hold
-- ARGV[3]  the lease of the remaining hold, or of the next owner, in ms
-- ARGV[4]  the time to live of the idempotency key, in ms
-- ARGV[5]  1 if the channel is a sharded one
-- ARGV[6]  the channel of the lock
-- ARGV[7]  the owner to hand the lock on to, if there is one
-- Reply:   {1, number of notified clients}; {2, the token of that owner, 0 without one} if it was handed on;
--          {0, 0} if the lock was not held

local owner, left, lease, successor = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[7]
local held = redis.call('HEXISTS', KEYS[1], owner)
local ended = held == 0 and redis.call('GET', KEYS[2])
if ended == '2' and successor and redis.call('HEXISTS', KEYS[1], successor) == 1 then
  return {2, KEYS[3] and tonumber(redis.call('GET', KEYS[3])) or 0}
elseif ended then
  return {ended == '0' and 0 or 1, 0}
elseif left > 0 then
  if held == 1 then
    redis.call('HSET', KEYS[1], owner, left)
    redis.call('PEXPIRE', KEYS[1], lease)
  end
  return {held, 0}
elseif held == 0 then
  redis.call('SET', KEYS[2], '0', 'PX', ARGV[4])
  return {0, 0}
end
if successor then
  -- include parts/token.lua
  -- The new owner is added before the old one is removed, because Redis removes an empty hash. Without a
  -- token or memory the lock cannot be taken.
  if type(token) == 'number' and type(redis.pcall('HSET', KEYS[1], successor, '1')) == 'number' then
    redis.call('HDEL', KEYS[1], owner)
    redis.call('PEXPIRE', KEYS[1], lease)
    redis.call('SET', KEYS[2], '2', 'PX', ARGV[4])
    return {2, token}
  end
end
-- DEL comes first, because a server without memory allows it, and then all commands after it.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[2], '1', 'PX', ARGV[4])
local notified = 0 -- a user without the right to publish can still unlock
if ARGV[5] == '1' then
  notified = redis.pcall('SPUBLISH', ARGV[6], '0')
else
  notified = redis.pcall('PUBLISH', ARGV[6], '0')
end
return {1, tonumber(notified) or 0}
