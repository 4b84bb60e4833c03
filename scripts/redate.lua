-- redate.lua: stands before the pieces that write. It brings records that are too far ahead (ahead.lua)
-- back to now, where something has shown that there may be some (astray), and the time is the server's.
--
-- A call brings back the 1,000 newest of them. When there were so many, half a ms is taken off the
-- oldest record: it expires in the same ms and stays the oldest, and a time that is no whole ms tells
-- the next call that there may be more (limiter.lua).

if astray and timed then
  local from = string.format('(%d', now + math.min(1000, interval / 10))
  local far = redis.call('ZREVRANGEBYSCORE', KEYS[3], '+inf', from, 'WITHSCORES', 'LIMIT', '0', '1000')
  local text = string.format('%d', now)
  for i = 1, #far, 2 do
    local member, at = far[i], tonumber(far[i + 1]) or math.huge
    -- include ahead.lua
    if at == now then
      redis.call('ZADD', KEYS[3], 'XX', text, member)
    end
  end
  if #far == 2000 then
    redis.call('ZADD', KEYS[3], 'XX', string.format('%d.5', since - 1), head[1])
  end
end
