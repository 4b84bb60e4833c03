-- mine.lua: stands behind limiter.lua, before the scripts that look for a request of their own.
--
-- found     where ARGV[5] is 1, the records of ARGV[3] that still count. A release by somebody else
--           may have shrunk them meanwhile, so all but their last four bytes are compared; one that a
--           release has removed whole is not found any more.

local found
if ARGV[5] == '1' then
  found = {}
  local wanted, rank, part = {}, gone, nil
  for i = 1, #ARGV[3], 21 do
    wanted[string.sub(ARGV[3], i, i + 16)] = true
  end
  repeat
    part = redis.call('ZRANGE', KEYS[3], rank, rank + 999)
    for i = 1, #part do
      if wanted[string.sub(part[i], 1, -5)] then
        found[#found + 1] = part[i]
      end
    end
    rank = rank + 1000
  until #part < 1000
end
