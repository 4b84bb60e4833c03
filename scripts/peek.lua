-- peek.lua: the numbers of a limiter. Writes nothing.
--
-- KEYS, ARGV, errors: common.lua; it always asks for numbers
-- ARGV[2]  the permits somebody may want
-- Reply:   numbers.lua, with one answer: 0, and the us until those permits are there, 0 if they are
--
-- Where more records have expired at once than a call looks at, each of the others counts as one
-- permit, which is what it holds at least, unless there are records of nothing among them.

if more and back >= gone then
  value = math.min(rate, value + redis.call('ZCOUNT', KEYS[3], '-inf', string.format('%d', expired)) - gone)
end
local n, taken, wait, sums = tonumber(ARGV[2]), 0, 0, {}
for _ = 1, 2 do -- due.lua puts the value right once at most
  if n <= value or n > rate or wait ~= 0 then
    break
  end
  -- include due.lua
end
local answers, brief, again, idle = { 0, wait }, nil, false, true
