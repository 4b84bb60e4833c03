-- due.lua: included where n permits are not there for one who comes after `taken` of the value were
-- given away, which come back an interval after `stamp`. It sets wait to the us until they are. It looks
-- at the 5,000 oldest records at most; when those hold too little, their last one says when to look
-- again, which is no answer for one who asks for numbers: to such a call it is told negative.
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
local bound = not at and not rank and sums[50]
if rank or bound then
  local last = rank or gone + 4999
  local record = redis.call('ZRANGE', KEYS[3], last, last, 'WITHSCORES')
  at = math.ceil(tonumber(record[2]) or math.huge)
  if at > now then
    local member = record[1]
    -- include ahead.lua
  end
end
if at or sum + taken >= need then
  wait = math.max(1, math.min(MOST, ((at or stamp) + interval - now) * 1000 - us))
else
  value = rate - sum
end
if bound and ARGV[6] and ARGV[6] ~= '' then
  wait = -math.max(2, wait)
end
