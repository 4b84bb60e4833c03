-- pour.lua: takes permits of a Meter, or gives them back.
--
-- KEYS[1]  the level and its time in µs, as in "2.5 1700000000000000"; no key is an empty bucket
-- ARGV[1]  the permits, negative if they are given back, 0 to look
-- ARGV[2]  the capacity
-- ARGV[3]  the rate
-- ARGV[4]  the interval, in µs
-- ARGV[5]  when the permits to give back come back with time, in µs since 1970; none: never. Where
--          permits are taken, 1 takes them whatever is left
-- Reply:   the permits left, below 0 a debt; when all are back, in µs; the same in µs since 1970, 0 if
--          nothing was taken; when the permits are back, in µs
--
-- meter.go has the same operations in the same order, so that both decide alike.

local MOST = 9007199254740992 -- 2^53: up to here a double holds every integer
local MOST_PERMITS = 2 ^ 40
local MOST_TIME = 10 * 366 * 86400 * 1000000 -- µs, until a debt is paid
local LONGEST = 64 -- bytes; a state has fewer
local n, capacity = tonumber(ARGV[1]), tonumber(ARGV[2])
local rate, interval = tonumber(ARGV[3]), tonumber(ARGV[4])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local stamp = tonumber(ARGV[5])
local charge = n > 0 and stamp
if n < 0 and stamp then -- water that has leaked out is not given back
  n = math.min(0, math.max(n, -(stamp - now) * rate / interval))
end
local value = redis.call('GET', KEYS[1]) or ''
if #value > LONGEST then -- longer than any state, and slow to read
  value = ''
end
local level, last = string.match(value, '^([%d%.e%+%-]+) (%d+)$')
-- The key may hold anything: unreadable data are an empty bucket.
level, last = tonumber(level) or 0, tonumber(last)
if not last or level <= 0 then
  level, last = 0, now
end
last = math.min(last, MOST)

local function at(time)
  return math.max(0, level - (time - last) * rate / interval)
end

local function wait(there, wanted)
  local excess = wanted - (capacity - there)
  if excess <= 0 then
    return 0
  end
  local us = math.floor(excess * interval / rate)
  for _ = 1, 2 do
    if wanted <= capacity - at(now + us) then
      break
    end
    us = us + 1
  end
  return math.min(us, MOST)
end

local function save(reset)
  redis.call('SET', KEYS[1], string.format('%.17g %.0f', level, last), 'PX', math.floor(reset / 1000) + 1)
end

local there = at(now)
local far = there > capacity + math.max(level, capacity) and last > now
-- While the numbers change, a limiter with a larger capacity may have filled the bucket. Its
-- permits stay taken. A clock that was set far back fills the bucket, and no more.
if far then
  level = math.max(level, capacity)
end
if level > MOST_PERMITS then -- no caller can have taken so much
  far, level = true, capacity
end
if far then
  there, last = level, now
end
if n == 0 or n > 0 and not charge and n > capacity - there then
  local reset = wait(there, capacity)
  if n > 0 and (far or redis.call('PTTL', KEYS[1]) < 0) then
    save(reset)
  end
  return {math.floor(capacity - there), reset, 0, wait(there, math.max(n, 1))}
end
level, last = math.max(0, there + n), now
if charge then
  level = math.min(level, MOST_PERMITS, capacity + MOST_TIME * rate / interval)
end
if level == 0 then
  redis.call('UNLINK', KEYS[1])
  return {capacity, 0, 0}
end
local reset = wait(level, capacity)
save(reset)
return {math.floor(capacity - level), reset, now + reset}
