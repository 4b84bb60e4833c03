-- common_write.lua: the value, the time to live and the removals after the common case. common_read.lua
-- explains the names. taken are the permits that were granted; step is their text with a minus.

if back ~= taken then
  local change = back == 0 and step or string.format('%d', back - taken)
  if type(redis.pcall('INCRBY', KEYS[2], change)) == 'table' then -- such as 1e3
    redis.call('SET', KEYS[2], string.format('%d', value - taken))
    given = '' -- SET has removed the time to live
  end
end
local MINUTE = 60000 -- ms
local ttl, least = redis.call('PTTL', KEYS[1]), interval + 1000
local fresh = keep > 0 and given ~= '' and ttl >= math.max(math.ceil(keep - keep / 8), least)
if keep > 0 and not fresh then
  ttl = math.max(keep, least)
  redis.call('PEXPIRE', KEYS[1], ttl)
elseif own and ttl <= 0 then
  ttl = 2 * interval + MINUTE
end
if ttl > 0 and not fresh then
  redis.call('PEXPIRE', KEYS[2], ttl)
  redis.call('PEXPIRE', KEYS[3], ttl)
end
if gone > 0 then -- last: finish.lua
  redis.call('ZREMRANGEBYRANK', KEYS[3], '0', gone - 1)
end
