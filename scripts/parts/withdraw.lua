-- withdraw.lua: takes back what earlier requests of the session were granted and nobody holds: the grants of
-- requests whose reply was lost, and the permits of callers that have left. The next request does this, or
-- a release of 0 permits. A copy of that request does nothing more, for the session says what is left of the
-- grant.
--
-- The permits come out of the newest records up to the time of the grant. Later records are never touched,
-- for the limiter may have been cleared since. A release takes permits from the newest records first, so it
-- may have removed the very record of the grant. Then older records are taken instead: that release left as
-- many permits in them.
--
-- ARGV[3]   the number of this request; within a session the numbers only grow
-- ARGV[9]   whatever requests after this number were granted goes back; missing or empty if nothing does
-- ARGV[10]  the permits that the request of exactly this number keeps; what it was granted beyond goes back
-- ARGV[11]  the channel that wakes waiters
--
-- in:       session, own, rate, head, expired, gone, value, since, astray, count, packed,
--           now, timed, interval
-- out:      late (the session has this number or a higher one: the request was sent again or is a late copy),
--           last (the number of the session's last request; nil where nobody needs it),
--           amount (the permits that request took, or minus those it gave back),
--           where (the time of their records; for a release as in session.lua),
--           withdraws (what earlier requests are granted is to go back, now or by a copy that comes late),
--           away (records for finish.lua to remove),
--           unfinished (more is to go back than a call can find: the request must be sent again)
-- changes:  session, head, value, since, astray
-- writes:   yes
-- ends the script: no

local late, last, amount, where, away, unfinished = false, nil, nil, nil, nil, false
local withdraws = ARGV[9] and ARGV[9] ~= ''
if session and (session >= ARGV[3] or withdraws) then -- the number comes first in the field
  local time, rateThen
  last, time, amount, where, rateThen = string.match(session, '^(%d+) (%d+) (%-?%d+) (%d+)(.*)$')
  amount, late = tonumber(amount), last and last >= ARGV[3]
  if late and last == ARGV[3] then -- a copy by another connection: WAIT is for what that one has written
    redis.call('HSET', KEYS[1], ARGV[2], session)
  end
  local kept = amount
  local here = (rateThen ~= '') == own -- the request was granted permits of this type
  if last and here and not late and last > ARGV[9] then
    kept = 0
  elseif last and here and not late and last == ARGV[9] then
    kept = tonumber(ARGV[10])
  end
  if last and amount > 0 and amount > kept then
    local wanted, latest = amount - kept, where
    -- include parts/find.lua
    unfinished = unseen
    local left = unfinished and amount - given or kept
    local entry = { last, time, string.format('%d', left), where .. rateThen }
    session = table.concat(entry, ' ')
    redis.call('HSET', KEYS[1], ARGV[2], session)
    -- include parts/remove.lua
    redis.pcall('PUBLISH', ARGV[11], 'changed')
  end
end
