-- peek.lua: returns the numbers that a limiter has once heal.lua has made it plain. Writes nothing.
--
-- KEYS, ARGV[1], ARGV[2], ARGV[6]: acquire.lua
-- ARGV[4]  the permits that a caller may want
-- ARGV[10] the given rate (parts/plain.lua); missing or empty where a rate must be set
-- Reply:   that of acquire.lua to a caller that asks for numbers, with the answers 0, and the us until those
--          permits are there; 0 if they are there now
-- Errors:  heal.lua

-- include parts/common_time.lua
local kind, given, replaced = ARGV[1], ARGV[10] or '', string.sub(ARGV[10] or '', -1) == '1'
local asked, healed, timed, member, summed = true, true, at ~= ARGV[6], nil, 0
-- include parts/errors.lua
-- include parts/plain.lua
local ttl = keep <= 0 and not endless and redis.call('PTTL', KEYS[1]) or -1
local ends = ttl >= 0 and (ttl + 1) * 1000 or MOST -- us; it expires in the ms after the last one
local n, wait, spent, lease, reset, walked, pages, passed = tonumber(ARGV[4]), 0, 0, 0, 0, nil, 0, false
if n > value and n <= rate and interval > 0 then
  -- include parts/until.lua
end
-- include parts/newest.lua
reset = math.min(reset, ends / 1000)
return { replaces and 2 or 0, rate, value, reset, reset, interval, drift, 0, wait }
