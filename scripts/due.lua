-- due.lua: included where n permits are not there for one who comes after `taken` of the value were
-- given away, which come back in an interval. It sets wait to the us until they are. No record can
-- count for longer than an interval, whatever its time says; after 5,000 records the time of the last
-- one is when to look again.
--
-- When the records hold less than the value says is missing, the value is wrong: it is put right and
-- wait left as it is.
local need, sum, rank, at = n - value + taken, 0, gone, nil
if head[1] and count(head[1]) >= need then
  at = head[2]
end
while not at and rank do
  local part = redis.call('ZRANGE', KEYS[3], rank, rank + 99)
  for i = 1, #part do
    sum = sum + count(part[i])
    if sum >= need or rank + i - gone == 5000 then
      at = redis.call('ZRANGE', KEYS[3], rank + i - 1, rank + i - 1, 'WITHSCORES')[2]
      break
    end
  end
  rank = #part == 100 and rank + 100 or nil
end
if at then
  wait = math.max(1, math.min(interval, at + interval - now) * 1000 - us)
elseif sum + taken >= need then
  wait = interval * 1000
else
  value = rate - sum
end
