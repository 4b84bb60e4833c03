-- release.lua: gives permits back. They come out of the newest records of this Client that count, and then
-- out of the oldest ones (parts/find.lua). The last of these may keep some of its permits. Permits that are
-- not outstanding are not given back.
--
-- A withdrawal takes back what earlier requests of the session were granted and no caller holds: the grants
-- of requests whose reply was lost, and the permits of callers that have left. A copy of it does nothing
-- more, for the session says what is left of the grant.
--
-- KEYS, ARGV[1..3], ARGV[6], ARGV[9], errors: acquire.lua
-- ARGV[4]  the permits to give back; 0 for a withdrawal
-- ARGV[5]  the first bytes of the records of this Client, empty where they have no mark of it
-- ARGV[7]  if a copy of this request may have reached the server before: the ms since it was first sent.
--          After an interval nothing is given back: the permits have come back anyway
-- ARGV[11] the channel that wakes waiters
-- ARGV[12] for a withdrawal: the grants of requests after this number go back; missing or empty if none do
-- ARGV[13] the permits that the request with exactly this number keeps; the rest of its grant goes back
-- ARGV[14] the records of a reservation or lease that is withdrawn, end to end; missing or empty for none
-- Reply:   {1} if nothing was given back: heal.lua is to be called first. {permits given back; 1 if there
--          may be more, for a call handles a bounded number of records, otherwise 0}; {-1, 1} to send
--          the same withdrawal again, because more is to be withdrawn than one call can find. A request that
--          was carried out before gets its first reply; {0, 0} for a late copy that no caller waits for

-- include parts/common_time.lua
local NAMES, PAGE, TAKEN, FAR = 14, 100, 300, 1000000000000 -- FAR: late.lua
local kind, number, given, asked, healed = ARGV[1], ARGV[3], '', false, ARGV[9] == '1'
local withdraws, mark, timed, member = (ARGV[12] or '') ~= '', ARGV[5], at ~= ARGV[6], 1
local summed = 1000 -- it sums half as many records as an acquire, because find.lua reads others
-- include parts/plain.lua

local last, dated, amount, where, tail = string.match(f[5] or '', '^(%d+) (%d+) (%-?%d+) (%d+)(.*)$')
local known = last and #last == #number and last - number <= FAR
if known and last >= number then
  redis.call('HSET', KEYS[1], ARGV[2], f[5]) -- WAIT counts the writes of its own connection
  return last == number and { -amount, tonumber(where) } or { 0, 0 }
end
local wanted = (tonumber(ARGV[7] or '') or 0) < interval and tonumber(ARGV[4]) or 0
if withdraws and known and (tail ~= '') == own and where + interval > now then -- a grant of this type
  wanted = math.max(0, last > ARGV[12] and amount or last == ARGV[12] and amount - ARGV[13] or 0)
end

local left, whole, again = wanted, {}, 0
live = live or redis.call('ZCARD', KEYS[3])
if wanted > 0 then
  -- include parts/find.lua
end
local found = wanted - math.max(0, left)
if not withdraws or again == 0 then -- otherwise the same request comes again, for the rest of the grant
  last, dated, amount, where = number, at, withdraws and found or 0, again
  tail = own and string.format(' %d', rate) or ''
end
local entry = string.format('%s %s %d %s', last, dated, amount - found, where) .. tail
value = left >= 0 and #whole == live and rate or math.min(rate, value + found)
if left < 0 then
  -- include parts/packed.lua
  -- include parts/add.lua
  local part = whole[#whole]
  add(redis.call('ZSCORE', KEYS[3], part), packed(part, -left))
end
local taken, took, lease, ttl = 0, nil, 0, keep <= 0 and redis.call('PTTL', KEYS[1]) or -1
-- include parts/write.lua
redis.pcall('PUBLISH', ARGV[11], 'changed') -- a user without the right to publish can still release
for i = 1, #whole, PAGE do -- unpack puts them all on the stack of Lua, which is bounded
  redis.call('ZREM', KEYS[3], unpack(whole, i, math.min(i + PAGE - 1, #whole)))
end
return { withdraws and -again or found, again }
