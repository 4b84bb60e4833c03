-- set_rate.lua: sets a rate, also if another one is set.
--
-- KEYS, ARGV[1], ARGV[2], ARGV[6], ARGV[9]: acquire.lua; ARGV[1] is the type to set
-- ARGV[3]  1 to do it only if a rate is set
-- ARGV[4]  the rate: `rate interval keep 1`, the times in ms. Where keep is 0, the time to live of an
--          earlier keep alive is removed. One that Expire or Java has set stays, as with Redisson: a limiter
--          that ends at midnight still does
-- ARGV[5]  1 to keep the records, if the type stays the same; the value may become negative
-- ARGV[11] the channel that wakes waiters
-- Reply:   1 set, or 0: no rate is set, and nothing was changed; {1} if heal.lua is to be called first, and
--          nothing was changed

-- include parts/common_time.lua
local before = redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
local exists = before[1] and before[2] and before[3]
if before.err then
  return { 1 }
elseif ARGV[3] == '1' and not exists then
  return 0
end

if ARGV[5] == '1' and exists and before[3] == ARGV[1] then
  -- A given rate of an acquire replaces another one in the same way.
  local kind, given, member, asked = ARGV[1], ARGV[4], 1, false
  local healed, timed, summed = ARGV[9] == '1', at ~= ARGV[6], 0
  -- include parts/plain.lua
  if gone > LIVE / 2 and not healed then -- of a longer interval: they may be too many to be removed at once
    return { 1 }
  end
  local ttl = keep <= 0 and not endless and redis.call('PTTL', KEYS[1]) or -1
  local taken, took, lease, entry = 0, nil, 0, nil
  -- The rate replaces those of all versions, whose records count no longer. The keys live for the keep alive
  -- from now on, whatever they have left; and exactly, as with Redisson, where no permits are outstanding.
  longest, given, span = '', '', interval
  dead = gone
  if keep > 0 and not first[1] then
    span = -1000 -- ms: write.lua adds a second
  end
  -- include parts/write.lua
else
  local rate, interval, keep = string.match(ARGV[4], '^(%d+) (%d+) (%d+) ')
  redis.call('HSET', KEYS[1], 'rate', rate, 'interval', interval, 'type', ARGV[1], 'keepAliveTime', keep)
  if keep ~= '0' then
    redis.call('PEXPIRE', KEYS[1], keep)
  elseif not exists or (tonumber(before[4] or 0) or 0) > 0 then
    redis.call('PERSIST', KEYS[1])
  end
  redis.call('HDEL', KEYS[1], 'longest')
  -- The grants of all sessions are gone with their records, so there is nothing left to withdraw. To say so,
  -- their time becomes 0: no record has it. The rest of the field stays, so that a request that is sent again
  -- is still not carried out twice.
  local FIELDS = '1000' -- bounds the time of a call; in a larger hash some sessions are missed
  local sessions = redis.call('HSCAN', KEYS[1], '0', 'MATCH', 'session:*', 'COUNT', FIELDS)[2]
  for i = 1, #sessions, 2 do
    local done = string.match(sessions[i + 1], '^%d+ %d+ %-?%d+ ')
    if done then
      redis.call('HSET', KEYS[1], sessions[i], done .. '0')
    else
      redis.call('HDEL', KEYS[1], sessions[i])
    end
  end
  redis.call('UNLINK', KEYS[2], KEYS[3]) -- last, as in write.lua
end
redis.pcall('PUBLISH', ARGV[11], 'changed')
return 1
