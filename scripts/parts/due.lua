-- due.lua: sets wait to the us until n permits are there that are not, for one who comes after `taken` of
-- the value were given away, which come back an interval after `stamp`. It looks at the 5,000 oldest
-- records at most; when those hold too little, their last one says when to look again, which is no answer
-- for one who asks for numbers: to such a call it is told negative.
--
-- When the records hold less than the value says is missing, the value is wrong: it is put right and
-- wait left as it is. That happens once in a call: from then on n <= rate is found.
--
-- in:       n, taken, stamp, sums (what the first 100 records hold; the first 200; and so on as far as that is
--           known; it is added to: many runs that are refused in one call read the records once),
--           wait, value, rate, interval, now, us, timed, head, since, gone, astray, asked, count, MOST, away
-- out:      none
-- changes:  wait, value, astray
-- writes:   no
-- ends the script: no

do
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
    wait = math.max(1, math.min(MOST, ((at or stamp) + interval - now) * 1000 - us))
  else
    value = rate - sum
  end
  if bound and asked then
    wait = -math.max(2, wait)
  end
end
