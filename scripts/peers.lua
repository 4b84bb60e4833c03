-- peers.lua: returns what a Client needs to know for leases, and while Redis is down. Writes nothing.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua
-- ARGV[4]  the given rate (parts/read.lua); missing or empty where a rate must be set
-- Reply:   {now in ms; rate; interval in ms; Clients that used the limiter within the last minute;
--          permits that are left, or fewer while more than 1,000 records have expired}
--
-- A Client of Go has a session (parts/session.lua). A Client with Groups has further ones for their calls,
-- and one that booked (book.lua) has a field for that: their names end in a dot and a number. All count as
-- one Client. Other fields count for none, whatever they hold: Java, users and older versions write them
-- as well. A Client whose requests are all refused has a session only once it has checked the value
-- (unseen.lua).

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
local LETTERS = 16 -- of the random part of a session's name (engine.go)
-- All fields: their number is compared with HLEN below.
local page = l.hash('HSCAN', '0', 'COUNT', MANY_FIELDS)
local live, found, seen = 0, page[2], {}
for i = 1, #found, 2 do
  local client, rest = string.match(found[i], '^session:([A-Z2-7]+)(.*)$')
  local used = client and #client == LETTERS and (rest == '' or string.find(rest, '^%.%d+$'))
    and tonumber(string.match(found[i + 1], '^%d+ (%d+) %-?%d+ %d+') or '')
  if used and math.abs(l.now - used) <= MINUTE and not seen[client] then
    live, seen[client] = live + 1, true
  end
end
if page[1] ~= '0' then -- further fields: the same part of them is live
  live = math.floor(live * l.hash('HLEN') / math.max(1, #found / 2))
end
return { l.now, l.rate, l.interval, live, math.max(0, l.value) }
