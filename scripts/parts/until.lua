-- until.lua: sets wait, the us until n permits are there, of a limiter that has too few. Requests before it
-- in the same call were granted spent permits, which come back an interval and a lease after now. walked
-- has the permits of the first 100 records, of the first 200, and so on, as far as they were read, and at
-- -1, -2 and so on the records of these pages, so that many refused runs of one call read the records once.
--
-- If all records hold fewer permits than the value says are missing, the value is wrong, and if they are
-- too many to be read at once, they must be joined first: heal.lua. After it, the time of the last record
-- that was read is a lower bound, and wait is below 0 then.

local PAGE, PAGES = 100, 20
local need, sum, full = n - value + spent, 0, true
local rank = count(first[1] or '') >= need and gone
for page = 1, rank and 0 or PAGES do
  if walked and walked[page] and walked[page] < need then
    sum = walked[page]
  else
    local from = gone + PAGE * (page - 1)
    walked = walked or {}
    local members = walked[-page] or redis.call('ZRANGE', KEYS[3], from, from + PAGE - 1)
    walked[-page] = members
    for i = 1, #members do
      sum = sum + count(members[i])
      if sum >= need then
        rank = from + i - 1
        break
      end
    end
    full = #members == PAGE
    if rank or not full then
      break
    end
    walked[page] = sum
  end
end
local bound = not rank and full and gone + PAGE * PAGES - 1
if not healed and (bound or not rank and sum + spent < need) then
  return { member }
end
local ms = lease + interval
if rank == gone then
  ms = math.ceil(since) + interval - now
elseif rank or bound then
  local record = redis.call('ZRANGE', KEYS[3], rank or bound, rank or bound, 'WITHSCORES')
  local far, time = tooFar(record[1], tonumber(record[2]) or math.huge)
  if far and timed and not healed then
    return { member }
  end
  ms = time + interval - now
end
wait = math.max(1, math.min(MOST, ms * 1000 - us, ends - us))
if bound then
  wait = -math.max(2, wait)
end
