-- book.lua: notes permits that a Client has granted while Redis was away. They count from the time of
-- their grant, even if this exceeds the rate.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua
-- ARGV[3]   the number of the booking; the numbers of a Client only grow
-- ARGV[4]   the given rate (parts/read.lua); empty where a rate must be set
-- ARGV[12..] records, each after the time of its grant, in ms
-- Reply:   1 if nothing was booked and the call must be sent again, 0 if all is booked
--
-- A call may be sent again. A field of the hash, named like the session and `.0`, has the number of the last
-- booking: a copy of that booking, or of an earlier one, adds nothing. The field has the form of a session
-- and expires like one (parts/session.lua). Without the field, a copy skips the records that are still there.
-- Expired records are never added.

-- include parts/common.lua
-- include parts/keys.lua
-- include parts/read.lua
-- include parts/finish.lua
local l = newLimiter(hash, text, records, timeNow(ARGV[6]))
local err = read(l, ARGV[1], ARGV[2], ARGV[4])
if err then
  return err
end
local FROM = 12
local again = l.dead > MANY -- finish removes all of them, which must come first
l.alive = l.keep
if l.set then
  -- include parts/given.lua
  setGiven(l)
end
local field = ARGV[2] .. '.0'
local last = string.match(l.hash('HGET', field) or '', '^%d+')
if not again and not l.free and (not last or last < ARGV[3]) then
  local booked = 0
  for i = FROM, #ARGV - 1, 2 do
    local at = math.min(tonumber(ARGV[i]), l.now)
    if at > l.expired and l.records('ZADD', 'NX', string.format('%d', at), ARGV[i + 1]) == 1 then
      booked = booked + count(ARGV[i + 1])
    end
  end
  l.value = l.value - booked
  -- The field is written last: a booking with its field but without its records would be lost, whereas
  -- records without the field may only be booked twice.
  l.hash('HSET', field, string.format('%s %d %d 0', ARGV[3], l.now, booked))
end
finish(l, nil)
return again and 1 or 0
