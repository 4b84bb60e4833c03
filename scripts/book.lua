-- book.lua: notes permits that a Client has granted while Redis was away. They count from the time of their
-- grant on, also where more is taken then than the rate.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua
-- ARGV[3]   the number of the booking; the numbers of a Client only grow
-- ARGV[4]   the given rate (parts/limiter.lua); empty where a rate must be set
-- ARGV[12..] records, each of them behind the time of its grant, in ms
-- Reply:   1 if nothing was booked and the call must be sent again, 0 if all is booked
--
-- A call may be sent again. A field of the hash, named like the session and `.0`, has the number of the last
-- booking: a copy of that booking, or of an earlier one, adds nothing. The field has the form of a session
-- and expires like one (parts/session.lua). Without the field, a copy skips the records that are still there.
-- Expired records are never added.

local givenRate, lasts = ARGV[4] ~= '' and ARGV[4] or nil, nil -- the time to live is always set
-- include parts/common.lua
-- include parts/limiter.lua
local FROM = 12
local reply, away, step = dead > MANY and 1 or 0, nil, nil -- finish.lua removes them all: first that
local alive = keep
-- include parts/set.lua
local field = ARGV[2] .. '.0'
local last = string.match(redis.call('HGET', KEYS[1], field) or '', '^%d+')
if reply == 0 and not free and (not last or last < ARGV[3]) then
  local booked = 0
  for i = FROM, #ARGV - 1, 2 do
    local at = math.min(tonumber(ARGV[i]), now)
    if at > expired and redis.call('ZADD', KEYS[3], 'NX', string.format('%d', at), ARGV[i + 1]) == 1 then
      booked = booked + count(ARGV[i + 1])
    end
  end
  value = value - booked
  total = total and total + booked
  -- The field comes last: without it a record may be booked twice, without its records it would hide them.
  redis.call('HSET', KEYS[1], field, string.format('%s %d %d 0', ARGV[3], now, booked))
end
-- include parts/finish.lua
return reply
