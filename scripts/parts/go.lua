-- go.lua: recognizes records of Go. The random bytes of one begin with a mark (internal/wire/record.go). A
-- record of 8 bytes has no room for it; there two bits are set that are never set in the numbers that
-- Redisson writes.

local function ofGo(record)
  local SHORT, LC0I, BIT5 = 8, 20, 32 -- bytes of a record; the two bits stand above five others
  if #record == SHORT then
    return string.byte(record) == 3 and math.floor(string.byte(record, 4) / BIT5) % 4 == 3
  end
  local from = #record == LC0I and 9 or 2 -- after the header
  return string.sub(record, from, from + 1) == '\210G'
end
