-- mine.lua: stands behind limiter.lua, before the scripts that look for a request of their own.

-- Calls found with each record of the request in ARGV[3] that still counts. A release by somebody else
-- may have shrunk it meanwhile, so all but its last four bytes are compared; one that a release has
-- removed whole is not found any more.
local function mine(found)
  local wanted = {}
  for i = 1, #ARGV[3], 21 do
    wanted[string.sub(ARGV[3], i, i + 16)] = true
  end
  local rank, part = gone, nil
  repeat
    part = redis.call('ZRANGE', KEYS[3], rank, rank + 999)
    for i = 1, #part do
      if wanted[string.sub(part[i], 1, -5)] then
        found(part[i])
      end
    end
    rank = rank + 1000
  until #part < 1000
end
