-- ahead_of.lua: bounds the time of a record. Permits were taken no later than now, so a record must not
-- count for longer because the clock that dated it was ahead, or because ours was put back. A lease is
-- dated by its end, and one of 8 bytes has no room for a mark.

-- tooFar returns whether a record is further ahead than a clock may be, and its time: if so, now, to which
-- heal.lua sets it, or the latest allowed one, if the clock of this Client may be the wrong one.
local function tooFar(record, time)
  local NEAR, SECOND = 100, 1000 -- ms: a clock may be a tenth of an interval ahead
  local most = now + math.max(NEAR, math.min(SECOND, interval / 10))
  if #record == 8 or string.find(record, '\210GoRLease', 1, true) then
    most = now + math.max(NEAR, interval)
  end
  return time > most, time > most and timed and now or math.min(math.ceil(time), most)
end
