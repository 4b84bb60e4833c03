-- Takes permits as Java does. It returns 0, or the ms until the oldest record is due.
-- KEYS: value, permits. ARGV: now, interval, rate, the permits that are wanted, a record before its permits.
local now, interval, rate, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local left, wait = tonumber(redis.call('GET', KEYS[1]) or rate), 0
for _, record in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - interval)) do
  local ones, more = string.byte(record, -4, -3)
  left = left + ones + 256 * more
  redis.call('ZREM', KEYS[2], record)
end
if left >= n then
  redis.call('ZADD', KEYS[2], now, ARGV[5] .. string.char(n, 0, 0, 0))
  left = left - n
else
  wait = interval - now + redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
end
redis.call('SET', KEYS[1], left)
return wait
