-- peers.lua: returns what a Client needs to know for leases, and while Redis is down. Writes nothing.
--
-- KEYS, ARGV[1], ARGV[2], ARGV[6]: acquire.lua; errors: heal.lua
-- ARGV[4]  the given rate (parts/plain.lua); missing or empty where a rate must be set
-- Reply:   {now in ms; rate; interval in ms; Clients that used the limiter within the last minute;
--          permits that are left}
--
-- A Client of Go has a session (parts/sessions.lua). A Client with Groups has further ones for their calls,
-- and one that booked (book.lua) has a field for that: their names end in a dot and a number. All count as
-- one Client. Other fields count for none, whatever they hold: Java, users and older versions write them
-- as well. A Client whose requests are all refused has a session only once it has checked the value
-- (parts/plain.lua).

-- include parts/common_time.lua
local kind, given, replaced = ARGV[1], ARGV[4] or '', string.sub(ARGV[4] or '', -1) == '1'
local asked, healed, timed, member, summed = false, true, at ~= ARGV[6], nil, 0
-- include parts/errors.lua
-- include parts/plain.lua
local MINUTE, MANY_FIELDS = 60000, 1000 -- ms; a call looks at some 1,000 fields
local LETTERS = 16 -- of the random part of a session's name (engine.go)
-- All fields: their number is compared with HLEN below.
local page = redis.call('HSCAN', KEYS[1], '0', 'COUNT', MANY_FIELDS)
local clients, found, seen = 0, page[2], {}
for i = 1, #found, 2 do
  local client, rest = string.match(found[i], '^session:([A-Z2-7]+)(.*)$')
  local used = client and #client == LETTERS and (rest == '' or string.find(rest, '^%.%d+$'))
    and tonumber(string.match(found[i + 1], '^%d+ (%d+) %-?%d+ %d+') or '')
  if used and math.abs(now - used) <= MINUTE and not seen[client] then
    clients, seen[client] = clients + 1, true
  end
end
if page[1] ~= '0' then -- further fields: the same part of them is live
  clients = math.floor(clients * redis.call('HLEN', KEYS[1]) / math.max(1, #found / 2))
end
return { now, rate, interval, clients, math.max(0, value) }
