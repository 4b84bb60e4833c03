-- numbers.lua: the long reply.

-- numbers returns {1 to send the call again, otherwise 0, and 2 more if a given rate replaces another;
-- rate; permits left, may be negative; ms until all permits are back, without those granted now; the same
-- with them; the interval in ms; the permits by which the value was wrong; answers}. The two times are 0
-- if no caller asks for them. taken permits are granted now, and dated stamp; answers is nil or a list of
-- numbers.
local function numbers(l, asked, again, answers, taken, stamp)
  local reset = 0
  if asked and l.head[1] then
    local newest = l.records('ZRANGE', '-1', '-1', 'WITHSCORES')
    local at = math.ceil(tonumber(newest[2]) or math.huge)
    if at > l.now then
      -- include parts/ahead.lua
      at = bounded(l, newest[1], at)
    end
    reset = math.max(1, at + l.interval - l.now)
  end
  local later = asked and taken > 0 and math.max(reset, stamp + l.interval - l.now) or reset
  if later > 0 then
    -- include parts/ends.lua
    local ends = endsIn(l)
    reset, later = math.min(reset, ends), math.min(later, ends)
  end
  local flags = (again and 1 or 0) + (l.replaces and 2 or 0)
  local reply = { flags, l.rate, l.value - taken, reset, later, l.interval, l.drift }
  local FIXED = #reply
  for i = 1, answers and #answers or 0 do
    reply[FIXED + i] = answers[i]
  end
  return reply
end
