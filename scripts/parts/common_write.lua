-- common_write.lua: the value, the lives of the keys (lifetime.lua) and the removals after the common case.
-- common_read.lua explains the names. taken are the permits that were granted; step is their text with a
-- minus. After it, ends is when the limiter expires, in ms from now; nil if it does not, or if calls prolong
-- its life.

if back ~= taken then
  local change = back == 0 and step or string.format('%d', back - taken)
  if type(redis.pcall('INCRBY', KEYS[2], change)) == 'table' then -- such as 1e3
    redis.call('SET', KEYS[2], string.format('%d', value - taken))
  end
end
local least, ends = interval + 1000, nil
if keep > 0 then
  local ttl, text, records = 0, 0, 0
  if given ~= '' then
    text, records, ttl = redis.call('PTTL', KEYS[2]), redis.call('PTTL', KEYS[3]), redis.call('PTTL', KEYS[1])
  end
  if ttl < least or ttl < keep - keep / 8 or ttl > text or ttl > records
    or text > ttl + least or records > ttl + least then
    ttl = math.max(keep, least)
    redis.call('PEXPIRE', KEYS[1], ttl)
    redis.call('PEXPIRE', KEYS[2], ttl)
    redis.call('PEXPIRE', KEYS[3], ttl)
  end
else
  local MINUTE = 60000 -- ms
  local ttl = redis.call('PTTL', KEYS[1])
  ends = ttl >= 0 and ttl + 1 or nil -- 0 in the last ms
  if own and ttl < 0 then
    ttl = 2 * interval + MINUTE
  end
  if ttl >= 0 then
    redis.call('PEXPIRE', KEYS[2], math.max(1, ttl))
    redis.call('PEXPIRE', KEYS[3], math.max(1, ttl))
  elseif redis.call('PTTL', KEYS[2]) >= 0 or redis.call('PTTL', KEYS[3]) >= 0 then
    redis.call('PERSIST', KEYS[2])
    redis.call('PERSIST', KEYS[3])
  end
end
if gone > 0 then -- last: finish.lua
  redis.call('ZREMRANGEBYRANK', KEYS[3], '0', gone - 1)
end
