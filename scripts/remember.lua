-- remember.lua: stands behind record.lua where records have a resolution (seen.lua): what this request
-- was granted, the slot it was written to and the oldest request, behind the time now and its number.

local fresh = false
if taken > 0 and not held then
  fresh = redis.call('HSET', KEYS[1], mark, string.format('%d %s %d %d %d', now, number, taken, stamp, oldest)) == 1
end
