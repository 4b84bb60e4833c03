-- lock.lua: takes a lock for a hold, or once more for a hold that has it. A copy of a request gets the
-- first reply, because a request says how often the owner then holds the lock.
--
-- KEYS[1]  the lock: a hash whose field OWNER is how often that owner holds it
-- KEYS[2]  the idempotency key of the hold, which exists after the hold has ended
-- KEYS[3]  the last token, of a fenced lock only
-- ARGV[1]  the owner
-- ARGV[2]  the lease, in ms
-- ARGV[3]  how often the owner then holds the lock: 1 takes it
-- Reply:   {1, the token, 0 without one} if it holds the lock; {0, the ms until the hold of another owner
--          ends, -1 if never, the last 15 digits of the holder's number, 0 if it is of another process};
--          {-1, 0} if the hold has ended: it was lost, or this is a late copy; an error if a rate limiter
--          has this name

local owner, lease, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local had = nil
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  if redis.call('EXISTS', KEYS[2]) == 1 then
    return {-1, 0}
  end
  had = redis.call('HGET', KEYS[1], owner)
  if not had and count == 1 then
    -- include parts/limiter.lua
    -- The hash of a lock has one field.
    local named = redis.call('HLEN', KEYS[1]) == 1 and redis.call('HKEYS', KEYS[1])[1]
    -- include parts/holder.lua
    return {0, redis.call('PTTL', KEYS[1]), holder}
  end
end
if not had and count > 1 then
  return {-1, 0}
end
-- A copy also sets the lease, because its owner counts the lease from this reply.
if had and (tonumber(had) or 0) >= count then
  redis.call('PEXPIRE', KEYS[1], lease)
  return {1, KEYS[3] and tonumber(redis.call('GET', KEYS[3])) or 0}
end
-- include parts/token.lua
if type(token) == 'table' then
  return token
end
redis.call('HSET', KEYS[1], owner, count)
redis.call('PEXPIRE', KEYS[1], lease)
return {1, token}
