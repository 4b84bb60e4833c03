-- take.lua: takes permits of a window, or gives them back.
--
-- KEYS[1]  the permits taken, in 13 bytes; when the window began, in µs since 1970, in 16
--          bytes; its length in ms; with spaces between them. It expires when the window ends
-- ARGV[1]  the permits, negative if they are given back, 0 to look
-- ARGV[2]  the rate
-- ARGV[3]  the interval, in ms
-- ARGV[4]  when the window of the permits to give back began; none: any window. Where permits are
--          taken, 1 takes them whatever is left
-- Reply:   the permits left, below 0 a debt; when all are back, in µs; when the window began, in µs since
--          1970, 0 if nothing was taken; when the permits are back, in µs

-- Positions in a text: the permits end, the time begins and ends, the length begins, and ends at most.
local DIGITS, FROM, TO, LENGTH, LAST = 13, 15, 30, 32, 43
local MOST, LATEST, LONGEST = 2 ^ 40, 10 ^ 16, 10 * 366 * 86400000 -- permits, µs, and ms

local n, rate, interval = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local text, ttl = redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])
-- Most calls take permits, or are refused, in a window of this interval.
local plain = text and #text <= LAST and n > 0 and not ARGV[4] and ttl > 0 and ttl <= interval
if plain and string.sub(text, LENGTH) == ARGV[3] then
  local used, began = tonumber(string.sub(text, 1, DIGITS)), tonumber(string.sub(text, FROM, TO))
  if used and began and used > 0 and began >= 1 and began <= LATEST then
    if used + n <= rate then
      redis.call('SETRANGE', KEYS[1], '0', string.format('%13d', used + n)) -- keeps the time to live
      return {rate - used - n, ttl * 1000, began}
    elseif used <= MOST then
      return {rate - used, ttl * 1000, 0, ttl * 1000}
    end
  end
end
local used, began, span, left = 0, 0, 0, 0 -- there is no window
-- The key may hold anything: unreadable data count as no window.
if text and #text <= LAST and ttl ~= 0 and ttl ~= -2 then
  local permits, time = tonumber(string.sub(text, 1, DIGITS)), tonumber(string.sub(text, FROM, TO))
  local length = tonumber(string.sub(text, LENGTH))
  if permits and time and length and permits >= 0 and permits <= MOST and time >= 1 and time <= LATEST
    and length >= 1 and length <= LONGEST then
    used, began, span, left = permits, time, length, ttl
    if ttl < 0 or ttl > span then -- the key was made to last, or the clock was set back
      left = span
    end
  end
end
local charge = n > 0 and ARGV[4]
if charge then
  n = math.min(n, MOST - used)
elseif ARGV[4] and tonumber(ARGV[4]) ~= began then -- the window has ended
  return {0, 0, 0}
elseif n >= 0 and math.max(n, 1) > rate - used then
  if n > 0 and ttl ~= left then
    redis.call('PEXPIRE', KEYS[1], left)
  end
  return {rate - used, left * 1000, 0, left * 1000}
end
local after = used + n
if n == 0 and not charge then
  return {rate - used, used > 0 and left * 1000 or 0}
end
if after <= 0 then
  redis.call('UNLINK', KEYS[1])
  return {rate, 0, 0}
end
local lasts = ttl == left
if n > 0 and span < interval then
  -- The window lasts for the longest interval of its limiters: permits taken before a change of
  -- the limit stay taken for their old interval.
  left, span, lasts = left + interval - span, interval, false
  if began == 0 then
    local clock = redis.call('TIME')
    began = clock[1] * 1000000 + clock[2]
  end
end
-- SETRANGE keeps the time to live.
if lasts then
  redis.call('SETRANGE', KEYS[1], '0', string.format('%13d', after))
else
  redis.call('SET', KEYS[1], string.format('%13d %16d %d', after, began, span), 'PX', left)
end
return {rate - after, left * 1000, began}
