-- peers.lua: tells what a Client needs to know for the time when Redis is away. Writes nothing.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua
-- ARGV[4]  the given rate (parts/limiter.lua); missing or empty where a rate must be set
-- Reply:   {now in ms; rate; interval in ms; sessions that were used within the last minute}
--
-- A session is a Client of Go (parts/session.lua). A Client that has Groups has further ones for their calls,
-- whose names go on with a dot and a number. Those that only ask and are refused have none.

local givenRate = ARGV[4] and ARGV[4] ~= '' and ARGV[4] or nil
-- include parts/common.lua
-- include parts/limiter.lua
local MINUTE, MANY_FIELDS = 60000, 1000 -- ms; a call looks at some 1,000 fields
local page = redis.call('HSCAN', KEYS[1], '0', 'MATCH', 'session:*', 'COUNT', MANY_FIELDS)
local live, found, seen = 0, page[2], {}
for i = 1, #found, 2 do
  local time = tonumber(string.match(found[i + 1], '^%d+ (%d+)'))
  local client = string.match(found[i], '^[^.]*')
  if time and math.abs(now - time) <= MINUTE and not seen[client] then
    live, seen[client] = live + 1, true
  end
end
if page[1] ~= '0' then -- it has not seen all: the others are as live as these
  live = math.floor(live * redis.call('HLEN', KEYS[1]) / math.max(1, #found / 2))
end
return { now, rate, interval, live }
