-- queue.lua: takes a turn of a Queue, or gives it back.
--
-- KEYS[1]  the owed time, when it was owed, and the turn of the last waiting caller, in µs, as in
--          "2.5 1700000000000000 0"; no key owes nothing
-- ARGV[1]  the permits, negative if they are given back, 0 to look
-- ARGV[2]  the rate
-- ARGV[3]  the interval, in µs
-- ARGV[4]  the most time that may be owed, in µs
-- ARGV[5]  the longest wait, in µs; 0 takes a turn only if it is now
-- ARGV[6]  the turn to give back; none: no turn of a waiting caller
-- Reply:   the rate if nothing is owed, otherwise 0; the time until nothing is owed, in µs; the turn, in
--          µs since 1970, 0 if none was taken; the wait, in µs
--
-- queue.go has the same operations in the same order, so that both decide alike.

local MOST = 9007199254740992 -- 2^53: up to here a double holds every integer
local LONGEST = 64 -- bytes; a state has fewer
local n, rate, interval = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local most, longest = tonumber(ARGV[4]), tonumber(ARGV[5])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local value = redis.call('GET', KEYS[1]) or ''
if #value > LONGEST then -- longer than any state, and slow to read
  value = ''
end
local owed, last, tail = string.match(value, '^([%d%.e%+%-]+) (%d+) (%d+)$')
owed, last, tail = tonumber(owed), tonumber(last), tonumber(tail)
-- The key may hold anything: unreadable data owe nothing.
if not owed or not last or not tail then
  owed, last, tail = 0, now, 0
end
local before = owed
if owed > 0 then
  owed = owed - (now - math.min(last, MOST))
end
if owed < 0.001 then -- a nanosecond: the error of a sum
  owed = 0
end
-- While the numbers change, a limiter with a longer line may have assigned turns. They stay. Only
-- the time that a clock set far back owes again is bounded.
local far = owed > most and last > now
if far then
  owed = math.max(before, most)
end
if owed > MOST then -- no caller can have taken so much
  far, owed = true, most
end
local wait = math.ceil(owed)
tail = math.min(tail, now + wait)

local function save()
  if owed == 0 then
    redis.call('UNLINK', KEYS[1])
    return
  end
  local text = string.format('%.17g %.0f %.0f', owed, now, tail)
  redis.call('SET', KEYS[1], text, 'PX', math.floor(owed / 1000) + 1)
end

if n == 0 then
  return {wait == 0 and rate or 0, wait, 0, wait}
elseif n > 0 and owed > longest then
  if far or redis.call('PTTL', KEYS[1]) < 0 then
    save()
  end
  return {0, wait, 0, wait}
end

local step = math.abs(n) * interval / rate
local pace = interval / rate
local turn = 0
if n > 0 then
  turn = now + wait
  if wait > 0 then
    tail = turn
  end
  owed = owed + step
elseif ARGV[6] then
  local stamp = tonumber(ARGV[6])
  -- The line ends with the turn, and the turn has not yet passed.
  if tail - stamp <= 1 and stamp + step > now then
    owed = math.max(0, owed - step)
    tail = stamp - math.floor(pace)
  end
else -- waiting callers keep their turns
  local kept = 0
  if tail > now then
    kept = math.min(owed, tail - now + pace)
  end
  owed = math.max(kept, owed - step)
end
if owed < 0.001 then
  owed = 0
end
save()
return {owed == 0 and rate or 0, math.ceil(owed), turn, wait}
