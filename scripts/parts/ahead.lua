-- ahead.lua: bounds the time of a record (member) whose time (at) is later than now. Its permits were
-- taken no later than now. So the record must not count for longer than an interval only because the
-- clock that dated it was ahead, or because our clock was put back.
--
-- How far ahead a record may be:
--   - A tenth of an interval, and a second at most: clocks that are kept in time differ by far less.
--   - An interval, if it is a record of a resolution (acquire.lua), which is dated by the end of its slot
--     of time. Such a record is known by its mark (internal/wire/record.go). A record of 8 bytes has no
--     room for the mark, so it may always be that far ahead.
-- A record further ahead is treated as a record of now, and finish.lua writes it so. A client with a clock
-- of its own may be the one that is wrong: it only brings the time back to the latest that may be.
--
-- in:       member, at, now, timed, interval, astray
-- out:      none
-- changes:  at, astray
-- writes:   no
-- ends the script: no

do
  local SECOND = 1000 -- ms
  local marked = #member == 8 or string.find(member, '\210GoR', 1, true)
  local most = now + (marked and interval or math.floor(math.min(SECOND, interval / 10)))
  if at > most then
    at, astray = timed and now or most, true
  end
end
