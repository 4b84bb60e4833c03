-- common.lua: what the scripts share that look at records: their permits, and the time.
--
-- KEYS[1]  NAME             hash: rate, interval, type, keepAliveTime; and a field for each session
-- KEYS[2]  {NAME}:value     string: the permits to take, a cache of rate - outstanding
-- KEYS[3]  {NAME}:permits   sorted set: a record per grant, scored with its time; this is the truth
--          (for PER_CLIENT the last two end in :ID)
-- ARGV[1]  the type whose keys these are: 0 OVERALL, 1 PER_CLIENT
-- ARGV[6]  now in ms; missing or empty for the time of the server
--
-- Lua makes each function anew in each call, all the slower the more variables of others it uses, and
-- Redis takes much of its time here to print numbers: format('%d') is the cheapest way, WITHSCORES the
-- dearest. So what every call goes through is plain code that is included, and asks for no more than it
-- needs. What most calls do not need stands at the end of ARGV, so that they need not send it: Redis
-- takes 0.1 us for each argument.
--
-- in:       none
-- out:      count, packed, now (in ms), us (beyond those ms), timed (now is the server's), MOST (2^53: up to
--           here doubles count without a gap)
-- changes:  none
-- writes:   no
-- ends the script: no

local redis, KEYS, ARGV, tonumber = redis, KEYS, ARGV, tonumber -- locals are found faster
local MOST = 9007199254740992

-- The permits of a record: the last four bytes, little-endian, in every format Redisson has had.
local function count(member)
  local a, b, c, d = string.byte(member, -4, -1)
  return d and a + b * 256 + c * 65536 + d * 16777216 or 0
end

-- A record with another number of permits.
local function packed(member, n)
  return string.sub(member, 1, -5)
    .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256, math.floor(n / 16777216))
end

local now, us = tonumber(ARGV[6]), 0
local timed = not now
if timed then
  local t = redis.call('TIME')
  us = t[2] % 1000
  now = t[1] * 1000 + (t[2] - us) / 1000
end
