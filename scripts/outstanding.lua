-- outstanding.lua: included where the permits of all records from a rank on are wanted. It adds them
-- to sum. The loop ends at a part that is not full; its bound is more than Redis can hold.
for from = rank, 4294967295, 1000 do
  local part = redis.call('ZRANGE', KEYS[3], from, from + 999)
  for i = 1, #part do
    sum = sum + count(part[i])
  end
  if #part < 1000 then
    break
  end
end
