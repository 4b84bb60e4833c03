-- expire.lua: sets or removes the time to live of a limiter. The condition is checked on the hash; value and
-- permits get the same time to live.
--
-- KEYS, ARGV[1]: acquire.lua
-- ARGV[2]  the command: PERSIST removes it, PEXPIRE sets a length of time, PEXPIREAT a point in time
-- ARGV[3]  that length, or that point as a Unix time, in ms. If it has passed, the limiter is removed
-- ARGV[4]  the condition, only with PEXPIRE: NX none is set, XX one is set, GT it is later than the one set,
--          LT it is earlier; or empty
-- ARGV[11] the channel that wakes waiters
-- Reply:   1 done, or 0: there is no limiter, or the condition does not hold
-- Errors:  BADKEY, OTHERTYPE (heal.lua)

local f = redis.pcall('HMGET', KEYS[1], 'type', 'interval')
if f.err then
  return string.find(f.err, '^WRONGTYPE') and redis.error_reply('BADKEY 1 hash') or f
elseif (f[1] == '1') ~= (ARGV[1] == '1') and f[1] then
  return redis.error_reply('OTHERTYPE ' .. (f[1] == '1' and '1' or '0'))
end
local left = redis.call('PTTL', KEYS[1]) -- -2: no key; -1: no time to live
if left == -2 then
  return 0
end

if ARGV[2] ~= 'PERSIST' then
  local ttl = tonumber(ARGV[3])
  local how = ARGV[4]
  if (how == 'NX' and left >= 0) or (how == 'XX' and left < 0)
    or (how == 'GT' and (left < 0 or ttl <= left)) or (how == 'LT' and left >= 0 and ttl >= left) then
    return 0
  end
  redis.pcall('PUBLISH', ARGV[11], 'changed') -- waits end with the limiter
  local t = redis.call('TIME') -- s, and the us beyond them
  if ttl <= (ARGV[2] == 'PEXPIREAT' and t[1] * 1000 + t[2] / 1000 or 0) then
    -- The commands below would free the records in the main thread, however many. UNLINK frees them in
    -- another.
    redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
    return 1
  end
  -- The commands are literals, because some managed services refuse computed ones.
  if ARGV[2] == 'PEXPIREAT' then
    redis.call('PEXPIREAT', KEYS[1], ARGV[3])
    redis.call('PEXPIREAT', KEYS[2], ARGV[3])
    redis.call('PEXPIREAT', KEYS[3], ARGV[3])
  else
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
    redis.call('PEXPIRE', KEYS[2], ARGV[3])
    redis.call('PEXPIRE', KEYS[3], ARGV[3])
  end
  return 1
end

-- Unlike parts/write.lua, which says how long the keys live, this leaves a keep alive to the next call.
redis.call('PERSIST', KEYS[1])
if f[1] == '1' then
  local MINUTE, MOST = 60000, 9007199254740992 -- ms; 2^53
  local lives = string.format('%d', math.min(MOST, 2 * math.max(0, tonumber(f[2]) or 0) + MINUTE))
  redis.call('PEXPIRE', KEYS[2], lives)
  redis.call('PEXPIRE', KEYS[3], lives)
else
  redis.call('PERSIST', KEYS[2])
  redis.call('PERSIST', KEYS[3])
end
return left == -1 and 0 or 1
