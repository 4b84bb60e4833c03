-- book.lua: notes permits that a Client has granted while Redis was away. They count from the time of
-- their grant, even if this exceeds the rate.
--
-- KEYS, ARGV[1], ARGV[2], ARGV[6], ARGV[9], errors: acquire.lua
-- ARGV[3]   the number of the booking; the numbers of a Client only grow
-- ARGV[4]   the given rate (parts/plain.lua); empty where a rate must be set
-- ARGV[12..] records, each after the time of its grant, in ms
-- Reply:   0 if all is booked, {1} if nothing was booked: heal.lua is to be called first
--
-- A call may be sent again. A field of the hash, named like the session and `.0`, has the number of the last
-- booking: a copy of that booking, or of an earlier one, adds nothing. The field has the form of a session
-- and expires like one (parts/sessions.lua). Without the field, a copy skips the records that are still
-- there. Expired records are never added.

-- include parts/common_time.lua
local kind, given, member, asked = ARGV[1], ARGV[4], 1, false
local healed, timed, summed = ARGV[9] == '1', at ~= ARGV[6], 0
-- include parts/plain.lua

local BOOKED = 12
local field, booked = ARGV[2] .. '.0', 0
local last = string.match(redis.call('HGET', KEYS[1], field) or '', '^%d+')
if interval > 0 and (not last or last < ARGV[3]) then
  for i = BOOKED, #ARGV - 1, 2 do
    local time = math.min(tonumber(ARGV[i]), now)
    if time > now - interval
      and redis.call('ZADD', KEYS[3], 'NX', string.format('%d', time), ARGV[i + 1]) == 1 then
      booked = booked + count(ARGV[i + 1])
    end
  end
  -- The field is written after the records: a booking with its field but without its records would be lost,
  -- whereas records without the field may only be booked twice.
  redis.call('HSET', KEYS[1], field, string.format('%s %s %d 0', ARGV[3], at, booked))
end
local ttl = keep <= 0 and not endless and redis.call('PTTL', KEYS[1]) or -1
local taken, took, lease, entry = booked, string.format('%d', booked), 0, nil
-- include parts/write.lua
return 0
