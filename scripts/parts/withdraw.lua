-- withdraw.lua: takes back what earlier requests of the session were granted and nobody holds: the grants of
-- requests whose reply was lost, and the permits of callers that have left. The next request does this, or
-- a release of 0 permits. A copy of that request does nothing more, for the session says what is left of the
-- grant.
--
-- The permits come out of the newest records of this Client up to the time of the grant, and then out of the
-- oldest ones (find.lua). Later records are left alone, for the records of the grant may have been cleared.
-- But a release may have taken them for another Client, and says so (remove.lua). Then that release left as
-- many permits in later records.
--
-- ARGV[3]   parts/late.lua
-- ARGV[9]   whatever requests after this number were granted goes back; missing or empty if nothing does
-- ARGV[10]  the permits that the request of exactly this number keeps; what it was granted beyond goes back
-- ARGV[11]  the channel that wakes waiters
--
-- in:       session, own, rate, head, expired, gone, value, since, astray, count, packed,
--           now, timed, interval, MOST, total
-- out:      late, last, dated, amount, where, rateThen (late.lua),
--           withdraws (what earlier requests are granted is to go back, now or by a copy that comes late),
--           away (records for finish.lua to remove),
--           unfinished (more is to go back than a call can find: the request must be sent again)
-- changes:  session, head, value, since, astray, total
-- writes:   yes
-- ends the script: no

local away, unfinished, withdraws = nil, false, ARGV[9] and ARGV[9] ~= ''
-- include parts/late.lua
if last and not late then
  local kept = amount
  local here = (rateThen ~= '') == own -- the request was granted permits of this type
  if here and last > ARGV[9] then
    kept = 0
  elseif here and last == ARGV[9] then
    kept = tonumber(ARGV[10])
  end
  if amount > 0 and amount > kept then
    local wanted, latest, ends = amount - kept, where, where
    local freed = string.match(redis.call('HGET', KEYS[1], 'session:freed') or '', '^%d+ %d+ 0 (%d+)$')
    if freed and tonumber(where) > math.max(0, expired) and tonumber(freed) >= tonumber(where) then
      ends = '+inf'
    end
    -- include parts/find.lua
    unfinished = unseen
    local left = unfinished and amount - given or kept
    local entry = { last, dated, string.format('%d', left), where .. rateThen }
    session = table.concat(entry, ' ')
    redis.call('HSET', KEYS[1], ARGV[2], session)
    -- include parts/remove.lua
    redis.pcall('PUBLISH', ARGV[11], 'changed')
  end
end
