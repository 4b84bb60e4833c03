-- calendar.lua: takes permits of a period of the calendar, or gives them back.
--
-- KEYS[1]  the permits taken, when their window began, and when it ends, in µs since 1970, with spaces
--          between them. It expires when the window ends
-- ARGV[1]  the permits, negative if they are given back, 0 to look
-- ARGV[2]  the rate
-- ARGV[3]  when a period begins, in µs since 1970
-- ARGV[4]  when it ends, and the next one begins
-- ARGV[5]  when the next one ends
-- ARGV[6]  when the window of the permits to give back began; none: any window. Where permits are
--          taken, 1 takes them whatever is left
-- Reply:   the permits left, below 0 a debt; when all are back, in µs; when the window began, in µs since
--          1970, 0 if nothing was taken; when the permits are back, in µs. Outside of the period: the
--          time, in µs since 1970, as the fifth number, and nothing was done

local MOST, LATEST, LONGEST = 2 ^ 40, 10 ^ 16, 368 * 86400000000 -- permits, and µs
local LAST = 47 -- bytes of a text

local n, rate, from, to = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
if now < from or now >= to then
  return {0, 0, 0, 0, now}
end
local used, began, ends = 0, from, to -- there is no window
local text = redis.call('GET', KEYS[1])
-- The key may hold anything: unreadable data count as no window.
if text and #text <= LAST then
  local permits, first, last = string.match(text, '^(%d+) (%d+) (%d+)$')
  if permits then
    permits, first, last = tonumber(permits), tonumber(first), tonumber(last)
    if permits <= MOST and first <= LATEST and last > now and last - first <= LONGEST then
      used, began, ends = permits, first, last
    end
  end
end
if began > now and ends > tonumber(ARGV[5]) then
  -- The clock was set back. The permits stay taken for this period and the next one at most.
  ends = tonumber(ARGV[5])
  if n ~= 0 then
    local left = math.ceil((ends - now) / 1000)
    redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f', used, began, ends), 'PX', left)
  end
end
local charge = n > 0 and ARGV[6]
if charge then
  n = math.min(n, MOST - used)
elseif ARGV[6] and tonumber(ARGV[6]) ~= began then -- the window has ended
  return {0, 0, 0}
elseif n >= 0 and math.max(n, 1) > rate - used then
  return {rate - used, ends - now, 0, ends - now}
end
if n == 0 and not charge then
  return {rate - used, used > 0 and ends - now or 0}
end
local after = used + n
if after <= 0 then
  redis.call('UNLINK', KEYS[1])
  return {rate, 0, 0}
end
if n > 0 then
  -- The window lasts for the longest period of its limiters. When periods have overlapped for a year,
  -- another window has its permits.
  ends = math.max(ends, to)
  if ends - began > LONGEST then
    began = from
  end
end
local left = math.ceil((ends - now) / 1000)
redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f', after, began, ends), 'PX', left)
return {rate - after, ends - now, began}
