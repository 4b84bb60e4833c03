-- release.lua: gives permits back. They come out of the newest records of this Client that count, and then
-- out of the oldest ones (parts/find.lua). The last of these may keep some of its permits. Permits that are
-- not outstanding are not given back. A release of 0 permits only takes back permits without a holder
-- (parts/withdraw.lua).
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua;
-- ARGV[9..11]: parts/withdraw.lua; ARGV[5]: a record of this Client, or empty
-- ARGV[3]  the number of the request; within a session the numbers only grow
-- ARGV[4]  the permits to give back
-- ARGV[7]  if a copy of this request may have reached the server before: the ms since it was first sent.
--          After an interval nothing is given back: the permits have come back anyway
-- Reply:   {permits given back; 1 if there may be more to give back, for a call reads no more than 3,000
--          records, otherwise 0}; {-1, 1} to send the same request again, because more is to be withdrawn
--          than one call can do. A request that was carried out before gets its first reply; {0, 0} for a
--          late copy that no caller waits for

-- include parts/common.lua
-- include parts/keys.lua
-- include parts/read.lua
-- include parts/late_old.lua
-- include parts/session.lua
-- include parts/find.lua
-- include parts/remove.lua
-- include parts/finish.lua
local l = newLimiter(hash, text, records, timeNow(ARGV[6]))
local err = read(l, ARGV[1], ARGV[2], nil)
if err then
  return err
end
local withdraws = (ARGV[9] or '') ~= ''
local done = lateness(l, ARGV[3], withdraws)
local unfinished = false
if withdraws then
  -- include parts/withdraw.lua
  unfinished = withdraw(l, done, ARGV[5])
end
if done.late then
  return done.same and { -done.amount, tonumber(done.where) } or { 0, 0 }
end
local wanted = (tonumber(ARGV[7]) or 0) < l.interval and not unfinished and tonumber(ARGV[4]) or 0
local found = find(l, wanted, ARGV[5], '+inf')
local reply = { unfinished and -1 or found.given, (unfinished or found.unseen) and 1 or 0 }
if not unfinished then
  remember(l, ARGV[3], string.format('%d', -found.given), string.format('%d', reply[2]))
end
remove(l, found)
redis.pcall('PUBLISH', ARGV[11], 'changed') -- a user without the right to publish can still release
finish(l, nil)
return reply
