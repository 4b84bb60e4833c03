-- outstanding.lua: adds the permits of all records from a rank on to sum.
--
-- in:       rank, sum, count
-- out:      none
-- changes:  sum
-- writes:   no
-- ends the script: no

do
  -- PART keeps the tables of Lua small. The loop ends with the first part that is not full; ENDLESS is its
  -- bound, more records than Redis can hold in one key.
  local PART, ENDLESS = 1000, 4294967295
  for from = rank, ENDLESS, PART do
    local part = redis.call('ZRANGE', KEYS[3], from, from + PART - 1)
    for i = 1, #part do
      sum = sum + count(part[i])
    end
    if #part < PART then
      break
    end
  end
end
