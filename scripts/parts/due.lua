-- due.lua: when permits that were refused will be there.
--
-- It reads the 5,000 oldest records at most. If they hold too few permits, the time of the last one is
-- a lower bound, and tells when to look again. A caller that asks for numbers must not get it as the time of
-- its permits: in a call that asks for them, the result is negative then.
--
-- If all records together hold fewer permits than the value says are missing, the value is wrong. Then it
-- corrects the value, and the result is 0. This happens at most once in a call: with a correct value, every
-- n <= rate has its time.

-- due returns the us until n permits are there. Requests before it in the same call were granted taken
-- permits, which come back an interval after stamp. sums has the permits of the first 100 records, of the
-- first 200, and so on, as far as they were read; due adds to it, so that many refused runs of one call read
-- the records once. asked says that a caller of the call asks for numbers.
local function due(l, n, taken, stamp, sums, asked)
  -- The first page is enough for most limiters. All pages together take about 1 ms.
  local PAGE, PAGES = 100, 50
  local need, sum, rank, at = n - l.value + taken, 0, nil, nil
  if l.head[1] and count(l.head[1]) >= need then
    at = l.since
  end
  for page = 1, (at or l.away) and 0 or PAGES do
    if sums[page] and sums[page] < need then
      sum = sums[page]
    else
      local from = l.gone + PAGE * (page - 1)
      local members = l.records('ZRANGE', from, from + PAGE - 1)
      for i = 1, #members do
        sum = sum + count(members[i])
        if sum >= need then
          rank = from + i - 1
          break
        end
      end
      if rank or #members < PAGE then
        break
      end
      sums[page] = sum
    end
  end
  local bound = not at and not rank and sums[PAGES]
  if rank or bound then
    local lastOne = rank or l.gone + PAGE * PAGES - 1
    local record = l.records('ZRANGE', lastOne, lastOne, 'WITHSCORES')
    at = math.ceil(tonumber(record[2]) or math.huge)
    if at > l.now then
      -- include parts/ahead.lua
      at = bounded(l, record[1], at)
    end
  end
  local wait = 0
  if at or sum + taken >= need then
    local ms = (at or stamp) + l.interval - l.now
    -- include parts/ends.lua
    wait = math.max(1, math.min(MOST, math.min(ms, endsIn(l)) * 1000 - l.us)) -- 1,000 us in a ms
  else
    l.drift, l.value = l.drift + l.rate - sum - l.value, l.rate - sum
  end
  if bound and asked then
    wait = -math.max(2, wait) -- -1 says never (judge.lua)
  end
  return wait
end
