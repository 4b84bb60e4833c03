-- java.lua: how many permits Java holds.
--
-- The random bytes of a record of Go begin with a mark (internal/wire/record.go). A record of 8 bytes has no
-- room for it; there two bits are set that are never set in the numbers that Redisson writes.

-- takenByJava returns the permits that records of other clients than Go hold: the outstanding permits, times
-- the part of Java in the newest 100 records.
local function takenByJava(l)
  local NEWEST, MUCH = 100, 1099511627776 -- 2^40: the reply has room for that (acquire.lua)
  local BIT5 = 32 -- the number is shifted by five bits: the two above them are the mark
  local LC0I = 20 -- the bytes of a record in the format Lc0I
  local java, all = 0, 0
  local newest = l.records('ZRANGE', tostring(-NEWEST), '-1')
  for i = 1, #newest do
    local member, ours = newest[i], false
    if #member == 8 then
      ours = string.byte(member) == 3 and math.floor(string.byte(member, 4) / BIT5) % 4 == 3
    else
      local from = #member == LC0I and 9 or 2 -- after the header
      ours = string.sub(member, from, from + 1) == '\210G'
    end
    local n = count(member)
    all, java = all + n, java + (ours and 0 or n)
  end
  return all > 0 and math.min(MUCH, math.ceil(java / all * math.max(0, l.rate - l.value))) or 0
end
