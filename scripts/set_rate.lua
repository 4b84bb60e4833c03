-- set_rate.lua: sets a rate, whatever was there before.
--
-- KEYS, ARGV: common.lua; ARGV[1] is the type to set
-- ARGV[2]  rate
-- ARGV[3]  interval in ms
-- ARGV[7]  keep alive in ms, 0 for none: then no key keeps a time to live it had
-- ARGV[8]  1 to keep the permits taken, as long as the type stays; value may become negative
-- ARGV[9]  1 to do it only where a rate is set
-- ARGV[10] the channel of changed.lua
-- Reply:   1 set, or 0: there is no rate, nothing was changed

local f = redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type')
if f.err then
  return redis.error_reply('BADKEY 1 hash')
elseif ARGV[9] == '1' and not (f[1] and f[2] and f[3]) then
  return 0
end
local same = ARGV[8] == '1' and f[3] and (f[3] == '1') == (ARGV[1] == '1')
if same and redis.pcall('ZRANGE', KEYS[3], 0, 0).err then
  return redis.error_reply('BADKEY 3 zset')
end

redis.call('HSET', KEYS[1], 'rate', ARGV[2], 'interval', ARGV[3], 'type', ARGV[1], 'keepAliveTime', ARGV[7])
redis.call('PERSIST', KEYS[1])
if not same then
  for _, name in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(name, 1, 7) == 'merged:' then -- what it tells of is no more
      redis.call('HDEL', KEYS[1], name)
    end
  end
end
local keep, own, interval = tonumber(ARGV[7]), ARGV[1] == '1', tonumber(ARGV[3])
local rank, sum = 0, 0
if same then
  rank = redis.call('ZCOUNT', KEYS[3], '-inf', now - interval)
  -- include outstanding.lua
  redis.call('SET', KEYS[2], tonumber(ARGV[2]) - sum)
  redis.call('PERSIST', KEYS[3])
end
-- include changed.lua
-- include lifetime.lua
-- What removes a key is the last that names it (last.lua).
if not same then
  redis.call('UNLINK', KEYS[2], KEYS[3])
elseif rank > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, rank - 1)
end
return 1
