-- mine.lua: stands behind limiter.lua, before the scripts that write or look for records of their own.
--
-- ARGV[2]   the permits of this request
-- ARGV[3]   its records, as few as can hold them, one behind the other
-- ARGV[5]   where the request may have been here, the ms since it was first sent
--
-- found     then, those of its records that still count. A release by somebody else may have shrunk
--           them meanwhile, so all but their last four bytes are compared; one that a release has
--           removed whole is not found any more. Only what was written since the request was first
--           sent is looked at, and a second more, for servers that take over from one another and
--           differ in time.
-- held      the permits they hold; nil if there are none
-- stamp     the time to write records with
-- size      the bytes of a record, 21 at the most
-- extra, mark, number, first   as in seen.lua

local found, held, stamp, extra, mark, number, first = {}, nil, now, nil, nil, nil, 7
local size = #ARGV[3]
if #ARGV[2] > 9 then -- digits: it may take more than one record
  size = size / math.ceil(ARGV[2] / 4294967295)
end
if tonumber(ARGV[5]) then
  local wanted = {}
  for i = 1, #ARGV[3], size do
    wanted[string.sub(ARGV[3], i, i + size - 5)] = true
  end
  local from = string.format('%d', now - ARGV[5] - 1000)
  local rank = math.max(gone, redis.call('ZCARD', KEYS[3]) - redis.call('ZCOUNT', KEYS[3], from, '+inf'))
  for start = rank, 4294967295, 1000 do -- ends at a part that is not full; Redis cannot hold more
    local part = redis.call('ZRANGE', KEYS[3], start, start + 999)
    for i = 1, #part do
      if wanted[string.sub(part[i], 1, -5)] then
        found[#found + 1] = part[i]
        held = (held or 0) + count(part[i])
      end
    end
    if #part < 1000 then
      break
    end
  end
end
