-- bring_back.lua: corrects records that are too far ahead (ahead.lua).

-- bringBack gives such records the time of now. A call brings back the 1,000
-- newest. If there were that many, there may be more, and the next call must know. So half a ms is taken off
-- the time of the oldest record: it still expires in the same ms and is still the oldest, and setOldest
-- notices a time that is no whole ms.
local function bringBack(l)
  -- include parts/ahead.lua
  -- BROUGHT bounds the time of a call. NEAR is what ahead.lua allows a record without a mark.
  local BROUGHT, NEAR = 1000, math.max(100, math.min(1000, l.interval / 10))
  local from, text = string.format('(%d', l.now + NEAR), string.format('%d', l.now)
  local far = l.records('ZREVRANGEBYSCORE', '+inf', from, 'WITHSCORES', 'LIMIT', '0', BROUGHT)
  for i = 1, #far, 2 do
    if bounded(l, far[i], tonumber(far[i + 1]) or math.huge) == l.now then
      l.records('ZADD', 'XX', text, far[i])
    end
  end
  if #far == 2 * BROUGHT and l.head[1] then
    l.records('ZADD', 'XX', string.format('%d.5', l.since - 1), l.head[1])
  end
end
