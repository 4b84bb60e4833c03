-- slot.lua: the records of a resolution (acquire.lua).

-- inSlot returns the record of the slot, to which the new permits are added, or nil. A slot of more than FULL
-- permits has several records; then it returns the one with the fewest permits.
local function inSlot(l, r, at)
  -- include parts/reserved.lua
  local LOOKED = '1000' -- bounds the time of a call: other clients may have written any number at this time
  local TAIL = 8 -- bytes in which the records of a slot differ: 4 left to chance, 4 of permits
  local there, least = l.records('ZRANGEBYSCORE', at, at, 'LIMIT', '0', LOOKED), nil
  local kind = string.sub(r.records, 1, r.size - TAIL)
  for i = 1, #there do
    if #there[i] == r.size and string.sub(there[i], 1, r.size - TAIL) == kind and not reserved(there[i]) then
      least = least and count(least) <= count(there[i]) and least or there[i]
    end
  end
  return least
end
