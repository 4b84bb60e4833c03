-- ahead.lua: included where a record (member) has a time (at) later than now. Its permits were taken
-- when somebody saw that time, so no later than now: it must not count for longer than an interval
-- because the clock it was written by was ahead, or ours has been put back.
--
-- Clocks that are kept in time differ by far less than a second: a tenth of an interval, and a second
-- at the most, passes for that. A record of a resolution (acquire.lua) has by right the time of the end
-- of its slot, up to an interval ahead; it is known by its mark (record.go), and one of 8 bytes has no
-- room for a mark. What is further ahead is taken for a record of now (finish.lua makes it one); or by
-- a client with a clock of its own, which may be the one that is wrong, for the latest that may be.
--
-- in:       member, at, now, timed, interval, astray
-- out:      none
-- changes:  at, astray
-- writes:   no
-- ends the script: no

do
  local marked = #member == 8 or string.find(member, '\210GoR', 1, true)
  local most = now + (marked and interval or math.floor(math.min(1000, interval / 10)))
  if at > most then
    at, astray = timed and now or most, true
  end
end
