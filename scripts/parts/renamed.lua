-- renamed.lua: the records of a reservation that was settled to more.

-- renamed returns the name of a record of a reservation that was settled to more: the last byte that is left
-- to chance is another one.
local function renamed(member)
  local HALF = 128 -- of the values of a byte
  return string.sub(member, 1, -6) .. string.char((string.byte(member, -5) + HALF) % 256)
    .. string.sub(member, -4)
end
