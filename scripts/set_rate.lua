-- set_rate.lua: sets a rate, also if another one is set.
--
-- KEYS: parts/common.lua
-- ARGV[1]  the type to set
-- ARGV[2]  rate
-- ARGV[3]  interval in ms
-- ARGV[4]  keep alive in ms, 0 for none: then the time to live of an earlier keep alive is removed. One that
--          Expire or Java has set stays, as with Redisson: a limiter that ends at midnight still does
-- ARGV[5]  1 to keep the records, if the type stays the same; the value may become negative
-- ARGV[6]  parts/common.lua
-- ARGV[7]  1 to do it only if a rate is set
-- ARGV[11] the channel that wakes waiters
-- Reply:   1 set, or 0: no rate is set, and nothing was changed

-- include parts/common.lua
-- include parts/keys.lua
-- include parts/outstanding.lua
-- include parts/lifetime.lua
local f = redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type', 'session:' .. KEYS[2], 'longest',
  'keepAliveTime')
if f.err then
  return string.find(f.err, '^WRONGTYPE') and redis.error_reply('BADKEY 1 hash') or f
end
local there = f[1] and f[2] and f[3]
if ARGV[7] == '1' and not there then
  return 0
end
local same = ARGV[5] == '1' and f[3] and (f[3] == '1') == (ARGV[1] == '1')
local oldest = same and redis.pcall('ZRANGE', KEYS[3], 0, 0) or {}
if oldest.err then
  return string.find(oldest.err, '^WRONGTYPE') and redis.error_reply('BADKEY 3 zset') or oldest
end

redis.call('HSET', KEYS[1], 'rate', ARGV[2], 'interval', ARGV[3], 'type', ARGV[1], 'keepAliveTime', ARGV[4])
if not there or (tonumber(f[6] or 0) or 0) > 0 then
  redis.call('PERSIST', KEYS[1])
end
if not same then
  -- The grants of all sessions are gone with their records, so there is nothing left to withdraw. To say
  -- so, their time becomes 0: no record has it (parts/withdraw.lua). The rest of the field stays, so that a
  -- request that is sent again is still not carried out twice.
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
end
local keep, own, span = tonumber(ARGV[4]), ARGV[1] == '1', tonumber(ARGV[3])
local l = { hash = hash, text = text, records = records, keep = keep, own = own, span = span }
local dead = 0
if same then
  dead = redis.call('ZCOUNT', KEYS[3], '-inf', string.format('%d', timeNow(ARGV[6]).now - span))
  local size, stored = redis.call('ZCARD', KEYS[3]), tonumber(redis.pcall('GET', KEYS[2]))
  -- Takes the outstanding permits from the value, which is exact unless versions have taken turns
  -- (parts/span.lua). The sum of more than MANY records would be an estimate.
  local before, charged, exact = tonumber(f[1]), nil, false
  if own then
    before = tonumber(f[4] and string.match(f[4], '^%d+ %d+ %-?%d+ %d+ (%-?%d+)$') or '')
  end
  if size - dead > MANY and stored and before then
    exact, charged = not f[5], before - stored
  end
  local value = charged and tonumber(ARGV[2]) - charged
  if exact and value % 1 == 0 and math.abs(value) <= MOST then
    dead = 0 -- the next calls give back expired permits
  else
    dead = dead == size and dead or math.min(dead, MANY) -- the others count until the next calls
    local bound = value and value % 1 == 0 and value >= -MOST and value or MOST
    value = math.min(tonumber(ARGV[2]) - outstanding(l, dead), bound)
  end
  redis.call('SET', KEYS[2], string.format('%d', value))
  if own then -- parts/vouch.lua
    local voucher = string.format('%016d %s 0 0 %s', 0, timeNow(ARGV[6]).at, ARGV[2])
    redis.call('HSET', KEYS[1], 'session:' .. KEYS[2], voucher)
  end
end
redis.pcall('PUBLISH', ARGV[11], 'changed')
if keep > 0 and not oldest[1] then -- nothing is outstanding: exactly the keep alive, as with Redisson
  redis.call('PEXPIRE', KEYS[1], keep)
  redis.call('PEXPIRE', KEYS[2], keep)
else
  setLifetime(l)
end
redis.call('HDEL', KEYS[1], 'longest') -- a rate that is set replaces those of all versions (parts/span.lua)
-- The command that may remove a key is the last one that names it; parts/finish.lua says why.
if not same then
  redis.call('UNLINK', KEYS[2], KEYS[3])
elseif dead > MANY then
  redis.call('UNLINK', KEYS[3])
elseif dead > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, dead - 1)
end
return 1
