-- common.lua: stands in front of every script (scripts.go).
--
-- KEYS[1]  NAME             hash: rate, interval, type, keepAliveTime
-- KEYS[2]  {NAME}:value     string: the permits to take, a cache of rate - outstanding
-- KEYS[3]  {NAME}:permits   sorted set: a record per grant, scored with its time; this is the truth
--          (for PER_CLIENT the last two end in :ID)
-- ARGV[1]  the type whose keys these are: 0 OVERALL, 1 PER_CLIENT
-- ARGV[2], ARGV[3]  what the script says
-- ARGV[4]  now in ms; missing or empty for the time of the server
-- ARGV[5]  the ms since this request was first sent, if it may have reached the server before
-- ARGV[6]  the rate the client met last, 0 for none; missing or empty if it asks for no numbers
-- ARGV[7..]  what the script says
-- What most calls do not need stands behind, so that they need not send it: Redis takes 0.1 us for
-- each argument.
--
-- Errors, by their first word:
--   NOTINIT        rate, interval or type is not set
--   BADFIELD       a field of the hash is no integer up to 2^53: its name and what it holds
--   BADKEY         a key of another kind is in the way: its number, and the kind it should have
--   OTHERTYPE      the limiter has the other type: ask again with the keys of that one
-- Whatever a script answers with one of these, it has written nothing.
--
-- Lua makes each function anew in each call, all the slower the more variables of others it uses, and
-- Redis takes much of its time here to print numbers: format('%d') is the cheapest way, WITHSCORES the
-- dearest. So what every call goes through is plain code, in pieces that are put together or included,
-- and asks for no more than it needs.

local redis, KEYS, ARGV, tonumber = redis, KEYS, ARGV, tonumber -- locals are found faster

-- The permits of a record: the last four bytes, little-endian, in every format Redisson has had.
local function count(member)
  local a, b, c, d = string.byte(member, -4, -1)
  return d and a + b * 256 + c * 65536 + d * 16777216 or 0
end

-- The time in ms, and the us beyond them; timed where it is that of the server.
local now, us = tonumber(ARGV[4]), 0
local timed = not now
if timed then
  local t = redis.call('TIME')
  us = t[2] % 1000
  now = t[1] * 1000 + (t[2] - us) / 1000
end
