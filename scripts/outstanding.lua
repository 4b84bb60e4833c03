-- outstanding.lua: included where the permits of all records from a rank on are wanted. It adds them
-- to sum.
local part
repeat
  part = redis.call('ZRANGE', KEYS[3], rank, rank + 999)
  for i = 1, #part do
    sum = sum + count(part[i])
  end
  rank = rank + 1000
until #part < 1000
