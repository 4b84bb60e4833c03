-- peek.lua: tells the numbers of a limiter. Writes nothing.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua
-- ARGV[4]  the permits that a caller may want
-- ARGV[13] the given rate (parts/limiter.lua), missing for none: the numbers are those that an acquire with
--          it would find
-- Reply:   parts/numbers.lua, with two answers: 0, and the us until those permits are there, as in
--          acquire.lua; 0 if they are there now
--
-- A call counts no more than 1,000 expired records (parts/limiter.lua), and peek cannot leave the rest to the
-- next call, for it removes none. So it sums the records that still count, if they are few enough. Otherwise
-- it takes each expired record that was not counted for one permit. That is the least a record holds, unless
-- there are records of 0 permits.

local givenRate = ARGV[13]
-- include parts/common.lua
-- include parts/limiter.lua
if more then
  local FEW = 1000 -- as many as limiter.lua counts (COUNTED)
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
for _ = 1, 2 do -- the first time, due.lua may put the value right; then it sets wait
  if n <= value or n > rate or wait ~= 0 then
    break
  end
  -- include parts/due.lua
end
local answers = { 0, wait }
local reply
-- include parts/numbers.lua
return reply
