-- withdraw.lua: takes back what earlier requests of the session were granted and nobody holds: those whose
-- answer never came, and the permits of callers who have left. It is done with the next request, or with
-- a release of nothing. Sent again it does no more, for the session says what is left of the grant.
--
-- The permits come out of the newest records up to the time of the grant. What was taken after it is
-- never touched: the limiter may have been cleared since. Where somebody's release has removed the record
-- meanwhile, for it takes the newest first, older records are taken instead: that release left as many.
--
-- ARGV[3]   the number of this request; the numbers of a session only grow
-- ARGV[9]   everything that requests after this number were granted goes back; missing or empty if nothing does
-- ARGV[10]  and what that one was granted beyond so many permits
-- ARGV[11]  the channel that tells those who wait
--
-- in:       session, own, rate, head, expired, gone, value, since, astray, count, packed,
--           now, timed, interval
-- out:      late (the session has its number already, or a higher one: it was sent again, or is a late copy),
--           last (the number of the last request of the session, where that is of interest), amount (the permits
--           it took, below 0 what it gave back), where (the time of its records; of a release as in session.lua),
--           withdraws (something of those before it is to go back, if they were granted any, now or when a late
--           copy comes), away (records that finish.lua is to remove), unfinished (more is to go back than a call
--           can find: ask again)
-- changes:  head, value, since, astray
-- writes:   yes
-- ends the script: no

local late, last, amount, where, away, unfinished = false, nil, nil, nil, nil, false
local withdraws = ARGV[9] and ARGV[9] ~= ''
if session and (session >= ARGV[3] or withdraws) then -- the number comes first in the field
  local time, rateThen
  last, time, amount, where, rateThen = string.match(session, '^(%d+) (%d+) (%-?%d+) (%d+)(.*)$')
  amount, late = tonumber(amount), last and last >= ARGV[3]
  local kept = amount
  local here = (rateThen ~= '') == own -- what it took is of this type
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
    redis.call('HSET', KEYS[1], ARGV[2], table.concat(entry, ' '))
    -- include parts/remove.lua
    redis.pcall('PUBLISH', ARGV[11], 'changed')
  end
end
