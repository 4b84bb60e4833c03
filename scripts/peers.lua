-- peers.lua: returns what a Client needs to know for leases, and while Redis is down. Writes nothing.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua
-- ARGV[4]  the given rate (parts/read.lua); missing or empty where a rate must be set
-- Reply:   {now in ms; rate; interval in ms; sessions that were used within the last minute;
--          permits that are left, or fewer while more than 1,000 records have expired}
--
-- A session is a Client of Go (parts/session.lua). A Client with Groups has further sessions for their calls,
-- whose names end in a dot and a number. A Client whose requests are all refused has none.

-- include parts/common.lua
-- include parts/keys.lua
-- include parts/read.lua
local l = newLimiter(hash, text, records, timeNow(ARGV[6]))
l.unseen = false
local err = read(l, ARGV[1], ARGV[2], ARGV[4])
if err then
  return err
end
local MINUTE, MANY_FIELDS = 60000, 1000 -- ms; a call looks at some 1,000 fields
local page = l.hash('HSCAN', '0', 'MATCH', 'session:*', 'COUNT', MANY_FIELDS)
local live, found, seen = 0, page[2], {}
for i = 1, #found, 2 do
  local time = tonumber(string.match(found[i + 1], '^%d+ (%d+)'))
  local client = string.match(found[i], '^[^.]*')
  if time and math.abs(l.now - time) <= MINUTE and not seen[client] then
    live, seen[client] = live + 1, true
  end
end
if page[1] ~= '0' then -- further fields: the same part of them is live
  live = math.floor(live * l.hash('HLEN') / math.max(1, #found / 2))
end
return { l.now, l.rate, l.interval, live, math.max(0, l.value) }
