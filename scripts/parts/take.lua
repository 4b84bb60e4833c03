-- take.lua: writes the given rate, the session, and a record for what is granted.
--
-- ARGV[4], ARGV[5]: acquire.lua
--
-- in:       set, rate, interval, alive, all, taken (the permits to take), held, again, withdraws,
--           resent, own, known, session, now, us, stamp, slot, size, away, count, packed, FULL, value,
--           stored, total
-- out:      step (value - stored as a text, nil if it is not known: finish.lua)
-- changes:  value, known, total
-- writes:   yes
-- ends the script: no

local step
do
  local text = string.format('%d', now)
  local at = stamp == now and text or string.format('%d', stamp)

  -- include parts/set.lua

  -- The session is written also when nothing is granted: by a call that was sent again, for its first copy
  -- may still come; by one that withdraws, for copies of what it withdraws may still come; and when the
  -- session has not seen the rate.
  if not held and not again and (taken > 0 or withdraws or resent or own and not known) then
    local took = taken == all and ARGV[4] or string.format('%d', taken)
    -- include parts/session.lua
  end

  if taken > 0 then
    local left, extra = taken, nil
    -- extra is the record of the slot, to which the new permits are added. A slot of more than FULL permits
    -- has several; then it is the one that holds the least. If all records that count are about to be
    -- removed (away), there is none.
    if slot > 0 and not away then
      local LOOKED = '1000' -- bounds the time of a call: others may have written any number at this time
      local TAIL = 8 -- bytes in which the records of a slot differ: 4 left to chance, 4 of permits
      local there = redis.call('ZRANGEBYSCORE', KEYS[3], at, at, 'LIMIT', '0', LOOKED)
      local kind = string.sub(ARGV[5], 1, size - TAIL)
      for i = 1, #there do
        if #there[i] == size and string.sub(there[i], 1, size - TAIL) == kind then
          extra = extra and count(extra) <= count(there[i]) and extra or there[i]
        end
      end
    end
    for from = 1, #ARGV[5], math.max(1, size) do
      local member = size == #ARGV[5] and ARGV[5] or string.sub(ARGV[5], from, from + size - 1)
      local n = left <= FULL and left or FULL
      local inSlot, replaced = extra and count(extra) or FULL, nil
      if n + inSlot <= FULL then
        member, replaced, extra = packed(member, n + inSlot), extra, nil
      elseif taken < all then
        member = packed(member, n)
      end
      -- include parts/put.lua
      if replaced then -- added first, removed after: an error in between loses no permits
        redis.call('ZREM', KEYS[3], replaced)
      end
      left = left - n
      if left == 0 then
        break
      end
    end
    step = value == stored and taken == all and '-' .. ARGV[4] or nil
    value = value - taken
    total = total and total + taken
  end
end
