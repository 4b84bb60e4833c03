-- release.lua: gives permits back. They come out of the newest records of this Client that count, and then
-- out of the oldest ones (parts/find.lua). The last of these may keep some of its permits. Permits that are
-- not outstanding are not given back. A release of 0 permits only takes back permits without a holder
-- (parts/withdraw.lua).
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua;
-- ARGV[3], ARGV[9..11]: parts/withdraw.lua; ARGV[5]: parts/find.lua
-- ARGV[4]  the permits to give back
-- ARGV[7]  if a copy of this request may have reached the server before: the ms since it was first sent.
--          After an interval nothing is given back: the permits have come back by themselves
-- ARGV[8]  groups, if calls of Groups of this Client have not ended yet (parts/remove.lua)
-- ARGV[12] the session of the Client, if this one is that of a call to several limiters (parts/rebuild.lua)
-- Reply:   {permits given back; 1 if there may be more to give back, for a call reads no more than 3,000
--          records, otherwise 0}; {-1, 1} to send the same request again, because more is to be withdrawn
--          than one call can do. A request that was carried out before gets its first reply; {0, 0} for a
--          late copy that nobody waits for

local givenRate, lasts = nil, nil -- without a rate there is no limiter; the time to live is always set
-- include parts/common.lua
-- include parts/limiter.lua
local client = ARGV[12]
if client then
  -- include parts/rebuild.lua
end
-- include parts/withdraw.lua
if late then
  return last == ARGV[3] and { -amount, tonumber(where) } or { 0, 0 }
end
local wanted = (tonumber(ARGV[7]) or 0) < interval and not unfinished and tonumber(ARGV[4]) or 0
local latest, ends = '+inf', '+inf'
-- include parts/find.lua
local reply, step = { unfinished and -1 or given, (unfinished or unseen) and 1 or 0 }, nil
if not unfinished then
  local text = string.format('%d', now)
  local took, at = string.format('%d', -given), string.format('%d', reply[2])
  -- include parts/session.lua
end
-- include parts/remove.lua
redis.pcall('PUBLISH', ARGV[11], 'changed') -- a user who may not publish gives back all the same
if client then
  -- include parts/vouch.lua
end
-- include parts/finish.lua
return reply
