-- due.lua: stands behind limiter.lua. It finds when the permits asked for are there.
--
-- ARGV[2]  the permits asked for
--
-- wait     the ms until they are, 0 when they are there now or can never be. No record can count
--          for longer than an interval, whatever its time says.
-- When the records hold less than the value says is missing, the value is wrong, and put right.

local n, wait = tonumber(ARGV[2]), 0
if n > value and n <= rate then
  local part, rank, held = head, gone, 0
  repeat
    for i = 1, #part, 2 do
      held = held + count(part[i])
      if held >= n - value then
        wait = math.max(1, math.min(interval, part[i + 1] + interval - now))
        break
      end
    end
    if wait == 0 then
      rank = rank + #part / 2
      part = redis.call('ZRANGE', KEYS[3], rank, rank + 99, 'WITHSCORES')
      if not part[1] then
        value, part, rank, held = rate - held, head, gone, 0
      end
    end
  until wait > 0 or n <= value
end
