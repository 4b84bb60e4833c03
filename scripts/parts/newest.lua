-- newest.lua: sets reset, which is 0 before it, to the ms until all permits are back, without those granted
-- now, if a caller asks for them.

if asked and first[1] then
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
