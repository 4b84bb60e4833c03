-- take.lua: takes permits of a window, or gives them back.
--
-- KEYS[1]  the permits that are taken, in 13 bytes, a space, and the length of the window, in
--          ms; it expires when the window ends
-- ARGV[1]  the permits, negative if they are given back
-- ARGV[2]  the rate
-- ARGV[3]  the interval, in ms
-- ARGV[4]  the end of the window that what is given back was taken of; none: whatever that was
-- Reply:   1 taken, or 0; what is left; when the permits and when all are back, in µs; the end of
--          the window, in µs since 1970

local DIGITS, LENGTH = 13, 26 -- bytes of the permits, and of a text
local MOST, LONGEST = 2 ^ 40, 10 * 366 * 86400000 -- permits, and ms

local n, rate, interval = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local place = tonumber(ARGV[4])
local clock = redis.call('TIME')
local ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
if place and ms * 1000 >= place then -- it is back
  return {0, 0, 0, 0, 0}
end
local text, ttl = redis.call('GETRANGE', KEYS[1], 0, LENGTH), redis.call('PTTL', KEYS[1])
-- Somebody else may have written anything: then a window begins, as where there is none.
local used, span = string.match(text, '^([ %d]+) (%d+)$')
local right = used and #used == DIGITS and #text <= LENGTH
used, span = tonumber(used or ''), tonumber(span or '')
right = right and used and used <= MOST and span >= 1 and span <= LONGEST
local left = ttl
if not right or ttl == 0 or ttl == -2 then
  used, span, left = 0, 0, 0
elseif ttl < 0 or ttl > span then -- somebody has made it last, or the clock was set back
  left = span
end
if n > 0 and n > rate - used then
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
-- The window lasts for the longest interval of those who take of it: what was taken before
-- a change of the limit stays taken for as long as it was said then.
local longer = n > 0 and span < interval
if longer then
  left = left + interval - span
  span = interval
end
-- SETRANGE lets the key keep its time.
local taken = string.format('%13.0f', after)
if longer or ttl ~= left then
  redis.call('SET', KEYS[1], string.format('%s %.0f', taken, span), 'PX', left)
else
  redis.call('SETRANGE', KEYS[1], 0, taken)
end
return {1, rate - after, 0, left * 1000, (ms + left) * 1000}
