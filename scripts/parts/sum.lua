-- sum.lua: the permits of the records that count, for a value that must be rebuilt, and of all records.
--
-- Up to MANY records are summed. If there are more, a call does not read all of them: it takes the permits of
-- all records (l.total), and subtracts those of the records that have expired and stay for another version.
-- Of these it reads up to MANY, and each further one holds a permit or more, unless those that were read show
-- records of 0 permits. So the sum may be too high, never too low. If l.total is not known, the sum is an
-- estimate. A new estimate may miss the grants of the last calls, so the sum is never lower than the
-- outstanding permits by the value (l.charged).

-- sumRecords returns the permits of the records that count, and sets l.total.
local function sumRecords(l)
  local BLOCK = 100 -- keeps the tables of Lua small
  local size, stay = l.records('ZCARD'), l.span > l.interval and l.gone - l.dead or 0
  local living, most, expiredSum = size - l.gone, math.min(stay, MANY), 0
  if l.total and l.total < size - l.dead then
    l.total = nil -- each record holds a permit or more: another client has written the field or the value
  end
  if living > MANY and l.total or not l.own and (size <= MANY or not l.total) then
    for from = l.dead, l.dead + most - 1, BLOCK do
      local part = l.records('ZRANGE', from, math.min(from + BLOCK, l.dead + most) - 1)
      for i = 1, #part do
        expiredSum = expiredSum + count(part[i])
      end
    end
  end
  if living > MANY and l.total then
    return math.max(0, l.total - expiredSum - (expiredSum >= most and stay - most or 0))
  end
  -- include parts/outstanding.lua
  local sum = outstanding(l, l.gone)
  if living > MANY then
    sum = math.max(sum, l.charged or 0)
  end
  if size <= MANY or stay == 0 then
    l.total = sum + expiredSum
  elseif not l.total then
    l.total = math.max(sum + math.ceil(expiredSum * stay / most), l.charged or 0)
  end
  return sum
end
