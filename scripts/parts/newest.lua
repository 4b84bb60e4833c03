-- newest.lua: sets reset, which is 0 before it, to the ms until all permits are back, without those granted
-- now, if a caller asks for them. If all are granted (passed), each caller reads the time with what is
-- granted now: then only records ahead of now matter, and counting these takes less time.

if asked and first[1] and (not passed or redis.call('ZCOUNT', KEYS[3], '(' .. at, '+inf') > 0) then
  local newest = redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')
  local latest = tonumber(newest[2]) or math.huge
  if latest > now then
    local far
    far, latest = tooFar(newest[1], latest)
    if far and timed and not healed then
      return { member }
    end
  end
  reset = math.max(1, math.ceil(latest) + interval - now)
end
