-- fair_lock.lua: takes a fair lock for an owner if the lock is free and the owner is next. Otherwise it
-- gives the owner one place in the queue.
--
-- A place lasts until its score. Redisson's owners add their wait to the last score, and subtract it from
-- all scores when they get the lock. Owners of Go renew their places (fair_keep.lua). They add the time of a
-- place to the score of an owner of Redisson, and nothing to that of another owner of Go (parts/lower.lua).
--
-- KEYS[1]  the lock: a hash whose field OWNER is how often that owner holds it
-- KEYS[2]  the queue: a list of owners, the first one next
-- KEYS[3]  a sorted set: when the place of each owner expires, in ms
-- KEYS[4]  the prefix of the channels of the owners
-- KEYS[5]  the idempotency key of the owner, which exists after the owner has left
-- ARGV[1]  1 if the channels are sharded ones
-- ARGV[2]  the owner
-- ARGV[3]  the lease, in ms
-- ARGV[4]  how long its place lasts, in ms; 0 if it does not wait
-- Reply:   {1, 0} if the owner holds the lock; {0, when to look again, in ms, -1 if unknown, the last 15
--          digits of the number of the holder, or of the next owner if the lock is free, 0 if it is of
--          another process or there is none}; {-1, 0} if the owner has left: this is a late copy; an error if
--          a rate limiter has this name

local owner, lease, place = ARGV[2], ARGV[3], tonumber(ARGV[4])
if redis.call('EXISTS', KEYS[5]) == 1 then
  return {-1, 0}
elseif redis.call('HEXISTS', KEYS[1], owner) == 1 then
  return {1, 0}
end
-- include parts/now.lua
-- include parts/purge.lua
-- include parts/hint.lua
if held == 1 then
  -- include parts/limiter.lua
end
if held == 0 and (not head or head == owner) then
  redis.call('HSET', KEYS[1], owner, '1')
  redis.call('PEXPIRE', KEYS[1], lease)
  local waited = redis.call('ZREM', KEYS[3], owner) == 1
  redis.call('LREM', KEYS[2], '0', owner)
  local behind = waited and redis.call('LINDEX', KEYS[2], '0')
  if behind then
    -- include parts/java.lua
    if not string.find(behind, GO) then
      local rank = 0
      -- include parts/lower.lua
    end
  end
  return {1, 0}
end
if place > 0 and not redis.call('ZSCORE', KEYS[3], owner) then
  -- include parts/java.lua
  local last = redis.call('LINDEX', KEYS[2], '-1')
  local score = last and tonumber(redis.call('ZSCORE', KEYS[3], last)) or 0
  if last and not string.find(last, GO) then
    score = math.max(score, now + JAVA) + place
  end
  redis.call('LREM', KEYS[2], '0', owner) -- the owner is there if the sorted set was lost
  redis.call('RPUSH', KEYS[2], owner)
  redis.call('ZADD', KEYS[3], math.max(score, now + place), owner)
end
if held == 0 and dropped then
  -- include parts/notify.lua
end
local named = held == 0 and head or redis.call('HLEN', KEYS[1]) == 1 and redis.call('HKEYS', KEYS[1])[1]
-- include parts/holder.lua
return {0, hint, holder}
