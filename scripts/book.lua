-- book.lua: notes permits that a Client has granted while Redis was away. They count from the time of their
-- grant on, also where more is taken then than the rate.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua
-- ARGV[4]   the given rate (parts/limiter.lua); empty where a rate must be set
-- ARGV[12..] records, each of them behind the time of its grant, in ms
-- Reply:   1 if nothing was booked and the call must be sent again, 0 if all is booked
--
-- A call may be sent again: a record that is there already is not added, and one that does not count any
-- more is not, either.

local givenRate, lasts = ARGV[4] ~= '' and ARGV[4] or nil, nil -- the time to live is always set
-- include parts/common.lua
-- include parts/limiter.lua
local FROM = 12
local reply, away, step = dead > MANY and 1 or 0, nil, nil -- finish.lua removes them all: first that
local alive = keep
-- include parts/set.lua
if reply == 0 and not free then
  for i = FROM, #ARGV - 1, 2 do
    local at = math.min(tonumber(ARGV[i]), now)
    if at > expired and redis.call('ZADD', KEYS[3], 'NX', string.format('%d', at), ARGV[i + 1]) == 1 then
      value = value - count(ARGV[i + 1])
    end
  end
end
-- include parts/finish.lua
return reply
