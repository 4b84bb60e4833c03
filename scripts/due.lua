-- due.lua: stands behind limiter.lua, before the scripts that say when permits are there.
--
-- due(n, taken)  the us until n permits are there for one who comes after `taken` of the value were
--                given away, which come back in an interval; 0 if they are there now. No record can
--                count for longer than an interval, whatever its time says.
-- When the records hold less than the value says is missing, the value is wrong, and put right. After
-- 5,000 records it answers with the time of the last one, when it is time to look again.

local function due(n, taken)
  while n > value - taken do
    local need, held, rank, part, at = n - value + taken, 0, gone, nil, nil
    if head[1] and count(head[1]) >= need then
      at = head[2]
    end
    while not at do
      part = redis.call('ZRANGE', KEYS[3], rank, rank + 99)
      for i = 1, #part do
        held = held + count(part[i])
        if held >= need or rank + i - gone == 5000 then
          at = redis.call('ZRANGE', KEYS[3], rank + i - 1, rank + i - 1, 'WITHSCORES')[2]
          break
        end
      end
      rank = rank + 100
      if not at and #part < 100 then
        break
      end
    end
    if at then
      return math.max(1, math.min(interval, at + interval - now) * 1000 - us)
    elseif held + taken >= need then
      return interval * 1000
    end
    value = rate - held
  end
  return 0
end
