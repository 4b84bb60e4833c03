-- release.lua: gives permits back. They come out of the newest records that count, the last one touched is
-- shrunk; what is not outstanding is not given back. A release of 0 takes back what nobody holds
-- (parts/withdraw.lua), and nothing else.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua; ARGV[3], ARGV[9..11]:
-- parts/withdraw.lua
-- ARGV[4]  the permits to give back
-- ARGV[7]  the ms since this request was first sent, if it may have reached the server before. An interval
--          later they have come back by themselves
-- Reply:   {permits given back; 1 if there may be more to give back, as one call takes no more than 2,000
--          records}; {-1, 1} to ask again the same, as more is to be withdrawn. When it was done before, what it
--          answered then; {0, 0} for a late copy that nobody waits for

-- include parts/limiter.lua
-- include parts/withdraw.lua
if late then
  return last == ARGV[3] and { -amount, tonumber(where) } or { 0, 0 }
end
local wanted, latest = (tonumber(ARGV[7]) or 0) < interval and not unfinished and tonumber(ARGV[4]) or 0, '+inf'
-- include parts/find.lua
local reply, step = { unfinished and -1 or given, (unfinished or unseen) and 1 or 0 }, nil
if not unfinished then
  local text = string.format('%d', now)
  local took, at = string.format('%d', -given), string.format('%d', reply[2])
  -- include parts/session.lua
end
-- include parts/remove.lua
redis.pcall('PUBLISH', ARGV[11], 'changed') -- who may not, gives back all the same
-- include parts/finish.lua
