-- count.lua: returns the permits of a record: its last four bytes, little-endian, in every format.

local function count(record)
  local a, b, c, d = string.byte(record, -4, -1)
  return d and a + b * 256 + c * 65536 + d * 16777216 or 0
end
