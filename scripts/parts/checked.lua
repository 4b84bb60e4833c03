-- checked.lua: sets due if the records are to be summed: ten seconds, or an interval if that is longer, have
-- passed since the field `checked` was written. The first look only writes the field.

local TEN = 10000 -- ms
local due, piece = false, math.max(TEN, interval)
local checked = tonumber(redis.call('HGET', KEYS[1], 'checked')) or 0
if math.floor(checked / piece) ~= math.floor(now / piece) then
  redis.pcall('HSET', KEYS[1], 'checked', at) -- a hint
  due = checked ~= 0
end
