-- outstanding.lua: sums records.

-- outstanding returns the permits of all records from a rank on. If they are more than MANY, it reads
-- MANY of them, evenly spread from the oldest to the newest, and assumes the same mean for the rest.
local function outstanding(l, rank)
  local PAGE = 100 -- keeps the tables of Lua small
  local left, read = l.records('ZCARD') - rank, 0
  local pages = math.ceil(math.min(left, MANY) / PAGE)
  local step = math.max(PAGE, (left - PAGE) / math.max(1, pages - 1))
  for page = 0, pages - 1 do
    local from = rank + math.floor(page * step)
    local part = l.records('ZRANGE', from, from + PAGE - 1)
    for i = 1, #part do
      read = read + count(part[i])
    end
  end
  return left > MANY and math.ceil(read * left / MANY) or read
end
