-- peek.lua: the numbers of a limiter. Writes nothing.
--
-- KEYS, ARGV, errors: common.lua; it always asks for numbers
-- ARGV[2]  the permits somebody may want
-- Reply:   numbers.lua, with one answer: 0, and the us until those permits are there, 0 if they are
--          (acquire.lua)
--
-- Where more records have expired at once than a call looks at, it looks at those that count, if they
-- are as few. Otherwise each of the others that have expired counts as one permit, which is what it holds
-- at least, unless there are records of nothing among them.

if more then
  local size, bound = redis.call('ZCARD', KEYS[3]), string.format('(%d', expired)
  local others = redis.call('ZCOUNT', KEYS[3], bound, '+inf')
  if others <= 1000 then
    local left = redis.call('ZRANGEBYSCORE', KEYS[3], bound, '+inf', 'WITHSCORES')
    value, gone, head, since = rate, size - others, left, tonumber(left[2]) or math.huge
    for i = 1, #left, 2 do
      value = value - count(left[i])
    end
    if since > now then
      local member, at = head[1], since
      -- include ahead.lua
      since = at
    end
  elseif back >= gone then
    value = math.min(rate, value + size - others - gone)
  end
end
local n, taken, wait, stamp, sums = tonumber(ARGV[2]), 0, 0, now, {}
for _ = 1, 2 do -- due.lua puts the value right once at most
  if n <= value or n > rate or wait ~= 0 then
    break
  end
  -- include due.lua
end
local answers, brief, again, idle = { 0, wait }, nil, false, true
