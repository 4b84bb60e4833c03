-- common.lua: what the general case shares: constants, the permits of a record, and the time.
--
-- KEYS[1]  NAME             hash: rate, interval, type, keepAliveTime; and a field for each session
-- KEYS[2]  {NAME}:value     string: the permits that are left, a cache of rate - outstanding
-- KEYS[3]  {NAME}:permits   sorted set: a record for each grant, scored with its time; this is the truth
--          (for PER_CLIENT the last two end in :ID)
-- ARGV[1]  the type whose keys these are: 0 OVERALL, 1 PER_CLIENT
-- ARGV[6]  now in ms; missing or empty for the time of the server
--
-- Lua creates every function anew in each call, which takes 0.1 us. So a function that few calls need is
-- included in the block that needs it. Numbers are printed seldom, for Redis spends much of a call on that:
-- the cheapest way is format('%d'), the dearest is WITHSCORES. Arguments that few calls need stand at the end
-- of ARGV, because Redis takes 0.1 us for each.

local MOST = 9007199254740992 -- 2^53: up to here a double holds every integer
local FULL = 4294967295 -- the permits that a record holds at most: it has four bytes for them
local MANY, COUNTED = 4000, 1000 -- records: MANY are summed or removed in 1 ms, COUNTED in a quarter of it

-- count returns the permits of a record: its last four bytes, little-endian, in every format of Redisson.
local function count(member)
  local a, b, c, d = string.byte(member, -4, -1)
  return d and a + b * 256 + c * 65536 + d * 16777216 or 0
end

-- newLimiter returns a limiter: the accessors of its keys (keys.lua), the time, and what read.lua fills in.
-- It names all fields that most calls use, because a table that grows takes longer. There are 32 at most, and
-- longest, afresh, lasts, endless, unseen, vouched, guessed and away are nil where they are not needed.
local function newLimiter(hash, text, records, time)
  return {
    hash = hash, text = text, records = records,
    now = time.now, us = time.us, timed = time.timed, at = time.at,
    field = nil, session = nil, rate = 0, interval = 0, keep = 0, own = false, known = false, set = false,
    stored = nil, value = nil, charged = nil, drift = 0,
    expired = 0, gone = 0, dead = 0, back = 0, more = false,
    head = nil, since = nil, astray = false, free = false, span = 0, alive = 0,
  }
end

-- timeNow returns the time of an argument in ms, or the time of the server: now in ms, us (those beyond
-- now), timed (it is the server's), at (now as a text).
local function timeNow(argument)
  local now = tonumber(argument)
  if now then
    return { now = now, us = 0, timed = false, at = string.format('%d', now) }
  end
  local t = redis.call('TIME') -- s, and the us beyond them
  local us = t[2] % 1000
  now = t[1] * 1000 + (t[2] - us) / 1000
  return { now = now, us = us, timed = true, at = string.format('%d', now) }
end
