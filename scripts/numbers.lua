-- numbers.lua: stands behind acquire.lua and peek.lua and makes their reply.
--
-- {1 to ask again, otherwise 0; rate; permits left, may be negative; ms until all are back, without
-- what is granted now; the same with it; and answers}. The two times are 0 if nobody asks for them.

local reply = brief or 0
local asked = ARGV[6] and ARGV[6] ~= ''
if asked or (answers and not brief) then
  local reset = 0
  local newest = asked and head[1] and redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES') or {}
  local time = newest[1] and (tonumber(newest[2]) or math.huge)
  if time and time > expired then
    reset = math.max(1, math.min(interval, time + interval - now))
  end
  reply = { again and 1 or 0, rate, value - taken, reset, asked and taken > 0 and interval or reset }
  for i = 1, answers and #answers or 0 do
    reply[5 + i] = answers[i]
  end
end
if idle then
  return reply
end
