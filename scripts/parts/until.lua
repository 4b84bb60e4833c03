-- until.lua: sets wait, the us until n permits are there, of a limiter that has too few. Requests before it
-- in the same call were granted spent permits, which come back an interval and a lease after now. walked[i]
-- are the permits of the first i records that count, as far as they were read for earlier requests of the
-- call; pages are the pages of records that were read for all limiters.
--
-- If all records hold fewer permits than the value says are missing, the value is wrong, and if they are
-- too many to be read at once, they must be joined first: heal.lua. After that, or where other limiters took
-- the pages, the time of the last record that was read is a lower bound, and wait is then below 0.

local PAGE, PAGES, STEPS = 100, 20, 11 -- 2^STEPS is more than PAGE * PAGES
local need = n - value + spent
local rank = count(first[1] or '') >= need and gone
walked = walked or {}
for page = pages + 1, rank and 0 or PAGES do
  local from = #walked
  if walked.ended or from > 0 and walked[from] >= need then
    break
  end
  local members = redis.call('ZRANGE', KEYS[3], gone + from, gone + from + PAGE - 1)
  for i = 1, #members do
    walked[from + i] = (walked[from + i - 1] or 0) + count(members[i])
  end
  walked.ended, pages = #members < PAGE, page
end
local last = #walked
local sum = walked[last] or 0
local bound = not rank and sum < need and not walked.ended
if not healed and not rank and sum + spent < need and (walked.ended or last == PAGE * PAGES) then
  return { member }
elseif not rank and sum >= need then
  local low, high = 1, last
  for _ = 1, STEPS do
    local middle = math.floor((low + high) / 2)
    if walked[middle] >= need then
      high = middle
    else
      low = middle + 1
    end
  end
  rank = gone + high - 1
end
local ms = lease + interval
if rank == gone then
  ms = math.ceil(since) + interval - now
elseif rank or bound then
  rank = rank or gone + math.max(1, last) - 1
  local record = redis.call('ZRANGE', KEYS[3], rank, rank, 'WITHSCORES')
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
