-- tally.lua: finds the permits of the records that count, for a value that must be rebuilt, and of all
-- records.
--
-- Up to MANY records are summed. More are not read by each call. The permits of all records are known then
-- (total), and those of the records that have expired and stay for another version are taken off: up to MANY
-- are read, and each further one holds a permit or more, unless those that were read show records of 0
-- permits. So the sum may be too high, never too low. Where total is not known, an estimate has to do. But a
-- call that estimates anew does not see what the last ones have granted. So the sum is never lower than what
-- the value says (charged).
--
-- in:       total, charged, own, gone, dead, span, interval, count, MANY, sum
-- out:      none
-- changes:  total, sum
-- writes:   no
-- ends the script: no

do
  local BLOCK = 100 -- keeps the tables of Lua small
  local size, stay = redis.call('ZCARD', KEYS[3]), span > interval and gone - dead or 0
  local living, most, expiredSum = size - gone, math.min(stay, MANY), 0
  if total and total < size - dead then
    total = nil -- each record holds a permit or more: somebody else has written the field or the value
  end
  if living > MANY and total or not own and (size <= MANY or not total) then
    for from = dead, dead + most - 1, BLOCK do
      local part = redis.call('ZRANGE', KEYS[3], from, math.min(from + BLOCK, dead + most) - 1)
      for i = 1, #part do
        expiredSum = expiredSum + count(part[i])
      end
    end
  end
  if living > MANY and total then
    sum = math.max(0, total - expiredSum - (expiredSum >= most and stay - most or 0))
  else
    local rank = gone
    -- include parts/outstanding.lua
    if living > MANY then
      sum = math.max(sum, charged or 0)
    end
    if size <= MANY or stay == 0 then
      total = sum + expiredSum
    elseif not total then
      total = math.max(sum + math.ceil(expiredSum * stay / most), charged or 0)
    end
  end
end
