-- withdraw.lua: takes back what earlier requests of the session were granted and no caller holds: the grants
-- of requests whose reply was lost, and the permits of callers that have left. The next request does this, or
-- a release of 0 permits. A copy of that request does nothing more, for the session says what is left of the
-- grant.
--
-- The permits come out of the newest records of this Client up to the time of the grant, and then out of the
-- oldest ones (find.lua). Later records are left alone, for the records of the grant may have been cleared.
-- A release of another Client may also have taken them, and left as many permits in later records. Then what
-- the withdrawal does not find comes back with these records, up to an interval later.
--
-- ARGV[9]   the grants of requests after this number go back; missing or empty if none do
-- ARGV[10]  the permits that the request with exactly this number keeps; the rest of its grant goes back
-- ARGV[11]  the channel that wakes waiters

-- withdraw takes permits back, by what lateness returned. record is one of this Client. It returns whether
-- more permits are to go back than a call can find: the request must be sent again.
local function withdraw(l, done, record)
  if not done.last or done.late then
    return false
  end
  local kept = done.amount
  local here = (done.rate ~= '') == l.own -- the request was granted permits of this type
  if here and done.last > ARGV[9] then
    kept = 0
  elseif here and done.last == ARGV[9] then
    kept = tonumber(ARGV[10])
  end
  if done.amount <= 0 or done.amount <= kept then
    return false
  end
  -- include parts/find.lua
  -- include parts/remove.lua
  local found = find(l, done.amount - kept, record, done.where)
  local left = found.unseen and done.amount - found.given or kept
  l.session = table.concat({ done.last, done.dated, string.format('%d', left), done.where .. done.rate }, ' ')
  l.hash('HSET', l.field, l.session)
  remove(l, found)
  redis.pcall('PUBLISH', ARGV[11], 'changed')
  return found.unseen
end
