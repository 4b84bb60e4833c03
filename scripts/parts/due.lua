-- due.lua: sets wait to the us until n permits are there, for a request that was refused. Requests before
-- it in the same call were granted `taken` permits, which come back an interval after `stamp`.
--
-- It reads the 5,000 oldest records at most. If they hold too few permits, the last of them tells when to
-- look again. That is a lower bound and no time to tell a caller who asks for numbers: in a call that asks
-- for them, wait is negative then.
--
-- If all records together hold fewer permits than the value says are missing, the value is wrong. Then the
-- value is put right and wait stays as it is. This happens at most once in a call: by a right value, every
-- n <= rate has its time.
--
-- in:       n, taken, stamp,
--           sums (the permits of the first 100 records, of the first 200, and so on, as far as they were
--           read; due.lua adds to it, so that many refused runs of one call read the records once),
--           wait, value, rate, interval, now, us, timed, head, since, gone, astray, asked, count, MOST, away,
--           drift
-- out:      none
-- changes:  wait, value, drift, astray
-- writes:   no
-- ends the script: no

do
  -- The first page is enough for most limiters. All pages together take about 1 ms.
  local PAGE, PAGES = 100, 50
  local need, sum, rank, at = n - value + taken, 0, nil, nil
  if head[1] and count(head[1]) >= need then
    at = since
  end
  for page = 1, (at or away) and 0 or PAGES do
    if sums[page] and sums[page] < need then
      sum = sums[page]
    else
      local from = gone + PAGE * (page - 1)
      local records = redis.call('ZRANGE', KEYS[3], from, from + PAGE - 1)
      for i = 1, #records do
        sum = sum + count(records[i])
        if sum >= need then
          rank = from + i - 1
          break
        end
      end
      if rank or #records < PAGE then
        break
      end
      sums[page] = sum
    end
  end
  local bound = not at and not rank and sums[PAGES]
  if rank or bound then
    local lastOne = rank or gone + PAGE * PAGES - 1
    local record = redis.call('ZRANGE', KEYS[3], lastOne, lastOne, 'WITHSCORES')
    at = math.ceil(tonumber(record[2]) or math.huge)
    if at > now then
      local member = record[1]
      -- include parts/ahead.lua
    end
  end
  if at or sum + taken >= need then
    wait = math.max(1, math.min(MOST, ((at or stamp) + interval - now) * 1000 - us)) -- 1,000 us in a ms
  else
    drift, value = drift + rate - sum - value, rate - sum
  end
  if bound and asked then
    wait = -math.max(2, wait) -- -1 says never (acquire.lua)
  end
end
