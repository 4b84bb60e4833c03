-- take.lua: takes permits of a window, or gives them back.
--
-- KEYS[1]  the permits that are taken, a number; it expires when the window ends
-- ARGV[1]  the permits, negative if they are given back
-- ARGV[2]  the rate
-- ARGV[3]  the interval, in ms
-- Reply:   1 taken, or 0; what is left; when the permits and when all are back, in µs

local n, rate, interval = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local found, ttl = tonumber(redis.call('GET', KEYS[1]) or ''), redis.call('PTTL', KEYS[1])
local used, left = found, ttl
-- Somebody else may have written anything, and a number that is none is not equal to itself.
if left == 0 or left == -2 or not used or used ~= used or used < 0 then
  used, left = 0, interval
elseif left < 0 or left > interval then -- somebody has made it last, or the clock was set back
  left = interval
end
if used > rate then
  used = rate
end
used = used - used % 1 -- of a fraction, the whole number below
if n > rate - used then
  if ttl ~= left then
    redis.call('PEXPIRE', KEYS[1], left)
  end
  return {0, rate - used, left * 1000, left * 1000}
end
local after = used + n
if after <= 0 then
  redis.call('UNLINK', KEYS[1])
  return {1, rate, 0, 0}
end
-- INCRBY is cheaper than SET, as the key keeps its time. It fails where others wrote a
-- number in another way, as 1e3.
if used ~= found or ttl ~= left or type(redis.pcall('INCRBY', KEYS[1], ARGV[1])) ~= 'number' then
  redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', left)
end
return {1, rate - after, 0, left * 1000}
