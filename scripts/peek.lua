-- peek.lua: returns the numbers of a limiter. Writes nothing.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua
-- ARGV[4]  the permits that a caller may want
-- ARGV[13] the given rate (parts/read.lua), missing for none: an acquire with it would find the same
--          numbers
-- Reply:   parts/numbers.lua, with two answers: 0, and the us until those permits are there, as in
--          acquire.lua; 0 if they are there now
--
-- A call counts at most 1,000 expired records (parts/read.lua), and peek cannot leave the rest to the next
-- call, because it removes none. So it sums the records that still count, if they are few enough. Otherwise
-- it counts each uncounted expired record as one permit, the least that a record holds unless it has 0
-- permits.

-- include parts/common.lua
-- include parts/keys.lua
-- include parts/read.lua
-- include parts/due.lua
-- include parts/numbers.lua
local l = newLimiter(hash, text, records, timeNow(ARGV[6]))
l.unseen = false
local err = read(l, ARGV[1], ARGV[2], ARGV[13])
if err then
  return err
end
if l.more then
  local FEW = 1000 -- as many as read counts (COUNTED)
  local size, bound = l.records('ZCARD'), string.format('(%d', l.expired)
  local others = l.records('ZCOUNT', bound, '+inf')
  if others <= FEW then
    local left = l.records('ZRANGEBYSCORE', bound, '+inf', 'WITHSCORES')
    l.value, l.gone = l.rate, size - others
    for i = 1, #left, 2 do
      l.value = l.value - count(left[i])
    end
    setOldest(l, left)
  elseif l.back >= l.gone then
    l.value = math.min(l.rate, l.value + size - others - l.gone)
  end
end
local n, wait, sums = tonumber(ARGV[4]), 0, {}
for _ = 1, 2 do -- the first turn may correct the value, the second computes the wait
  if n <= l.value or n > l.rate or wait ~= 0 then
    break
  end
  wait = due(l, n, 0, l.now, sums, true)
end
return numbers(l, true, false, { 0, wait }, 0, l.now)
