-- due.lua: included where n permits are not there for one who comes after `taken` of the value were
-- given away, which come back in an interval. It sets wait to the us until they are. No record can
-- count for longer than an interval, whatever its time says. It looks at the 5,000 oldest records at
-- most; after them the time of the last one is when to look again.
--
-- sums  what the first 100 records hold, the first 200 and so on, as far as that is known. So many
--       runs that are refused in one call read the records once, and 100 of them again each
--
-- When the records hold less than the value says is missing, the value is wrong: it is put right and
-- wait left as it is. That happens once in a call: from then on n <= rate is found.
local need, sum, rank, at = n - value + taken, 0, nil, nil
if head[1] and count(head[1]) >= need then
  at = since
end
for part = 1, at and 0 or 50 do
  if sums[part] and sums[part] < need then
    sum = sums[part]
  else
    local from = gone + 100 * part - 100
    local records = redis.call('ZRANGE', KEYS[3], from, from + 99)
    for i = 1, #records do
      sum = sum + count(records[i])
      if sum >= need then
        rank = from + i - 1
        break
      end
    end
    if rank or #records < 100 then
      break
    end
    sums[part] = sum
  end
end
if not at and (rank or sums[50]) then
  local last = rank or gone + 4999
  at = tonumber(redis.call('ZRANGE', KEYS[3], last, last, 'WITHSCORES')[2]) or math.huge
end
if at then
  wait = math.max(1, math.min(interval, at + interval - now) * 1000 - us)
elseif sum + taken >= need then
  wait = interval * 1000
else
  value = rate - sum
end
