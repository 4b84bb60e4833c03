-- peek.lua: the numbers of a limiter. Writes nothing.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua
-- ARGV[4]  the permits somebody may want
-- Reply:   parts/numbers.lua, with one answer: 0, and the us until those permits are there, 0 if they are
--          (acquire.lua)
--
-- Where more records have expired at once than a call looks at, it looks at those that count, if they
-- are as few. Otherwise each of the others that have expired counts as one permit, which is what it holds
-- at least, unless there are records of nothing among them.

-- include parts/limiter.lua
if more then
  local FEW = 1000
  local size, bound = redis.call('ZCARD', KEYS[3]), string.format('(%d', expired)
  local others = redis.call('ZCOUNT', KEYS[3], bound, '+inf')
  if others <= FEW then
    local left = redis.call('ZRANGEBYSCORE', KEYS[3], bound, '+inf', 'WITHSCORES')
    value, gone, head = rate, size - others, left
    for i = 1, #left, 2 do
      value = value - count(left[i])
    end
    -- include parts/since.lua
  elseif back >= gone then
    value = math.min(rate, value + size - others - gone)
  end
end
local n, taken, wait, stamp, sums, asked, again, away = tonumber(ARGV[4]), 0, 0, now, {}, true, false, nil
for _ = 1, 2 do -- due.lua puts the value right once at most
  if n <= value or n > rate or wait ~= 0 then
    break
  end
  -- include parts/due.lua
end
local answers = { 0, wait }
local reply
-- include parts/numbers.lua
return reply
