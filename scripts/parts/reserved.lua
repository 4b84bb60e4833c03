-- reserved.lua: records that are settled by their name, those of reservations and leases. A release takes
-- them last (find.lua), and no other record takes their place.

-- reserved returns whether a record is that of a reservation (reservedMark in internal/wire/record.go). One
-- that was made by a version before that mark is not recognized.
local function reserved(member)
  local FI, LC0I, BIT3, BIT5 = 8, 20, 8, 32 -- bytes of a record; bits of the last byte of a number
  if #member == FI then -- bits 5 and 6 say that Go wrote it
    local byte = string.byte(member, 4)
    return string.byte(member) == 3 and math.floor(byte / BIT5) % 4 == 3 and math.floor(byte / BIT3) % 2 == 1
  end
  local from = #member == LC0I and 9 or 2 -- after the header
  return string.sub(member, from, from + 2) == '\210Gr'
end

-- leased returns whether a record is that of a lease (leaseMark there).
local function leased(member)
  return string.find(member, '\210GoRLease', 1, true) ~= nil
end
