-- ahead.lua: bounds the time of a record that is later than now. Its permits were taken no later than now. So
-- the record must not count for longer than an interval only because the clock that dated it was ahead, or
-- because our clock was put back.
--
-- How far ahead a record may be:
--   - A tenth of an interval, between 100 ms and a second: clocks that are kept in time differ by far less.
--   - An interval, if it is the record of a lease, which is dated by its end (acquire.lua), or one of 8
--     bytes, which has no room for a mark.
-- A record further ahead is treated as a record of now, and l.astray makes finish.lua rewrite it. If a client
-- has a clock of its own, that clock may be the wrong one: the client only lowers the time to the latest one
-- allowed.

-- bounded returns at, the time of a record, or the latest time allowed if at is later.
local function bounded(l, member, at)
  local NEAR, SECOND = 100, 1000 -- ms
  local marked = #member == 8 or string.find(member, '\210GoRLease', 1, true)
  local most = l.now + math.max(NEAR, marked and l.interval or math.floor(math.min(SECOND, l.interval / 10)))
  if at <= most then
    return at
  end
  l.astray = true
  return l.timed and l.now or most
end
