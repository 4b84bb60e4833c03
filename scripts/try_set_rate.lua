-- try_set_rate.lua: sets a rate if none is set. A hash that lacks rate, interval or type has no rate: all
-- its fields are written, and the value and permits that were left over are removed. Nothing is outstanding
-- then, so a keep alive lasts exactly as long as it says, as with Redisson.
--
-- KEYS: acquire.lua
-- ARGV[1]  the type to set
-- ARGV[4]  the rate, as in set_rate.lua
-- Reply:   1 set, or 0: a rate is set, and nothing was changed

local f = redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type')
if f.err then
  return string.find(f.err, '^WRONGTYPE') and redis.error_reply('BADKEY 1 hash') or f
elseif f[1] and f[2] and f[3] then
  return 0
end
local rate, interval, keep = string.match(ARGV[4], '^(%d+) (%d+) (%d+) ')
redis.call('HSET', KEYS[1], 'rate', rate, 'interval', interval, 'type', ARGV[1], 'keepAliveTime', keep)
if keep ~= '0' then
  redis.call('PEXPIRE', KEYS[1], keep)
else
  redis.call('PERSIST', KEYS[1])
end
redis.call('UNLINK', KEYS[2], KEYS[3])
return 1
