-- withdraw.lua: takes back what earlier requests of the session were granted and nobody holds: those whose
-- answer never came, and the permits of callers who have left. It is done with the next request, or with
-- a release of nothing. Sent again it does no more, for the session says what is left of the grant.
--
-- The permits come out of the newest records up to the time of the grant. What was taken after it is
-- never touched: the limiter may have been cleared since. Where somebody else's release has taken the
-- record, for the newest go first, those before it stand for what that one had taken.
--
-- ARGV[3]   the number of this request; the numbers of a session only grow
-- ARGV[9]   everything that requests after this number were granted goes back; missing or empty if nothing does
-- ARGV[10]  and what that one was granted beyond so many permits
-- ARGV[11]  the channel that tells those who wait
--
-- in:       last, amount, where, used, rate, head, expired, gone, value, since, astray, count, packed,
--           now, timed, interval
-- out:      number (of this request), late (one that came after it was here already: it is a late copy, or one
--           sent again), withdraws (something of those before it is to go back, if they were granted any, now or
--           when a late copy comes), away (records that finish.lua is to remove)
-- changes:  head, value, since, astray
-- writes:   yes
-- ends the script: no

local number, withdraws, away = tonumber(ARGV[3]), ARGV[9] and ARGV[9] ~= '', nil
local late = last and last >= number
if last and not late and amount > 0 and withdraws then
  local after, kept = tonumber(ARGV[9]), 0
  if last == after then
    kept = tonumber(ARGV[10])
  elseif last < after then
    kept = amount
  end
  if amount > kept then
    local wanted, latest = amount - kept, where
    -- include parts/find.lua
    local entry = string.format('%d %d %d %s %d', used, last, kept, where, rate)
    redis.call('HSET', KEYS[1], ARGV[2], entry)
    -- include parts/remove.lua
    redis.pcall('PUBLISH', ARGV[11], 'changed')
  end
end
