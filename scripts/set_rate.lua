-- set_rate.lua: sets a rate, whatever was there before.
--
-- KEYS: parts/common.lua
-- ARGV[1]  the type to set
-- ARGV[2]  rate
-- ARGV[3]  interval in ms
-- ARGV[4]  keep alive in ms, 0 for none: then no key keeps a time to live it had
-- ARGV[5]  1 to keep the permits taken, as long as the type stays; value may become negative
-- ARGV[6]  parts/common.lua
-- ARGV[7]  1 to do it only where a rate is set
-- ARGV[11] the channel that tells those who wait
-- Reply:   1 set, or 0: there is no rate, nothing was changed

-- include parts/common.lua
local f = redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type')
if f.err then
  return redis.error_reply('BADKEY 1 hash')
elseif ARGV[7] == '1' and not (f[1] and f[2] and f[3]) then
  return 0
end
local same = ARGV[5] == '1' and f[3] and (f[3] == '1') == (ARGV[1] == '1')
if same and redis.pcall('ZRANGE', KEYS[3], 0, 0).err then
  return redis.error_reply('BADKEY 3 zset')
end

redis.call('HSET', KEYS[1], 'rate', ARGV[2], 'interval', ARGV[3], 'type', ARGV[1], 'keepAliveTime', ARGV[4])
redis.call('PERSIST', KEYS[1])
if not same then
  -- What sessions were granted is no more, so nothing is to be taken back (parts/withdraw.lua): there are no
  -- records of time 0. A request that was done before and is sent again is still not done twice. Of more than
  -- 1,000 fields, it is some of them.
  local sessions = redis.call('HSCAN', KEYS[1], '0', 'MATCH', 'session:*', 'COUNT', '1000')[2]
  for i = 1, #sessions, 2 do
    local done = string.match(sessions[i + 1], '^%d+ %d+ %-?%d+ ')
    if done then
      redis.call('HSET', KEYS[1], sessions[i], done .. '0')
    else
      redis.call('HDEL', KEYS[1], sessions[i])
    end
  end
end
local keep, own, interval = tonumber(ARGV[4]), ARGV[1] == '1', tonumber(ARGV[3])
local rank, sum = 0, 0
if same then
  rank = redis.call('ZCOUNT', KEYS[3], '-inf', now - interval)
  -- include parts/outstanding.lua
  redis.call('SET', KEYS[2], tonumber(ARGV[2]) - sum)
  redis.call('PERSIST', KEYS[3])
end
redis.pcall('PUBLISH', ARGV[11], 'changed')
-- include parts/lifetime.lua
-- What removes a key is the last that names it (parts/finish.lua).
if not same then
  redis.call('UNLINK', KEYS[2], KEYS[3])
elseif rank > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, rank - 1)
end
return 1
