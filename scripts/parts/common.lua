-- common.lua: what all scripts that read records share: the permits of a record, and the time.
--
-- KEYS[1]  NAME             hash: rate, interval, type, keepAliveTime; and a field for each session
-- KEYS[2]  {NAME}:value     string: the permits that are left, a cache of rate - outstanding
-- KEYS[3]  {NAME}:permits   sorted set: a record for each grant, scored with its time; this is the truth
--          (for PER_CLIENT the last two end in :ID)
-- ARGV[1]  the type whose keys these are: 0 OVERALL, 1 PER_CLIENT
-- ARGV[6]  now in ms; missing or empty for the time of the server
--
-- Three rules keep calls fast:
--   - Code that every call runs is included, not put into a function. Lua makes every function anew in
--     each call, and that takes longer the more outer locals the function uses.
--   - Numbers are printed seldom, for Redis spends much of a call on that. The cheapest way is
--     format('%d'), the dearest is WITHSCORES.
--   - Arguments that few calls need stand at the end of ARGV, so that the others need not send them.
--     Redis takes 0.1 us for each argument.
--
-- in:       none
-- out:      MANY, COUNTED, count, packed, now (in ms), us (beyond those ms), timed (now is the server's),
--           MOST, FULL
-- changes:  none
-- writes:   no
-- ends the script: no

local redis, KEYS, ARGV, tonumber = redis, KEYS, ARGV, tonumber -- locals are found faster
-- A number with a name costs a call 5 ns.
local MOST = 9007199254740992 -- 2^53: up to here a double holds every integer
local FULL = 4294967295 -- the permits that a record holds at most: it has four bytes for them
local MANY, COUNTED = 4000, 1000 -- records: to sum or to remove them takes 1 ms, and a quarter of that

-- The permits of a record: its last four bytes, little-endian, in every format that Redisson has had.
local function count(member)
  local a, b, c, d = string.byte(member, -4, -1)
  return d and a + b * 256 + c * 65536 + d * 16777216 or 0
end

-- The same record with another number of permits.
local function packed(member, n)
  return string.sub(member, 1, -5)
    .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256, math.floor(n / 16777216))
end

local now, us = tonumber(ARGV[6]), 0
local timed = not now
if timed then
  local t = redis.call('TIME') -- s, and the us beyond them
  us = t[2] % 1000
  now = t[1] * 1000 + (t[2] - us) / 1000
end
