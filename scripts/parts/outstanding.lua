-- outstanding.lua: adds the permits of all records from a rank on to sum. If they are more than MANY, it
-- reads as many, evenly spread from the oldest to the newest, and takes the others for as large on average.
--
-- in:       rank, sum, count, MANY
-- out:      none
-- changes:  sum
-- writes:   no
-- ends the script: no

do
  local PAGE = 100 -- keeps the tables of Lua small
  local left, read = redis.call('ZCARD', KEYS[3]) - rank, 0
  local pages = math.ceil(math.min(left, MANY) / PAGE)
  local step = math.max(PAGE, (left - PAGE) / math.max(1, pages - 1))
  for page = 0, pages - 1 do
    local from = rank + math.floor(page * step)
    local part = redis.call('ZRANGE', KEYS[3], from, from + PAGE - 1)
    for i = 1, #part do
      read = read + count(part[i])
    end
  end
  sum = sum + (left > MANY and math.ceil(read * left / MANY) or read)
end
