-- sum.lua: the permits of the records that count, for a value that must be rebuilt.
--
-- Up to MANY records are summed. If there are more, the sum is an estimate, which may miss the grants of the
-- last calls. So it is never lower than the outstanding permits by the value (l.charged), unless that may be
-- the value of another interval.

-- sumRecords returns the permits of the records that count.
local function sumRecords(l)
  -- include parts/outstanding.lua
  local sum = outstanding(l, l.gone)
  if l.records('ZCARD') - l.gone > MANY and not l.afresh then
    sum = math.max(sum, l.charged or 0)
  end
  return sum
end
