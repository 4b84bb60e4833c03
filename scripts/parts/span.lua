-- span.lua: finds the longest interval that was in use on a limiter lately, where versions take turns and
-- each sets its own. Records and keys stay for the longest interval.
--
-- The field `longest` holds `interval until total value`: the permits of all records, and the value that was
-- written with them. The value alone cannot tell what the records of another interval hold. finish.lua
-- writes the field. Its last two numbers are missing where they are not known, and for PER_CLIENT, whose
-- clients have records of their own.

-- setSpan sets l.span, the longest of these intervals; l.longest, the first two numbers that the field is to
-- hold, nil if there is none, false if it must go; l.afresh, if the value may be that of another interval;
-- and l.total and l.wrote, the last two numbers. field is what `longest` says, or nil; lasted is the interval
-- that is replaced, 0 if none is.
local function setSpan(l, field, lasted)
  local HOUR = 3600000 -- ms; bounds how long the records of an unused version are kept
  local other, till, sum, written = string.match(field or '', '^(%d+) (%d+) ?(%d*) ?(%-?%d*)$')
  other, till = tonumber(other or 0) or 0, tonumber(till or 0) or 0
  if sum and #sum > 0 and #written > 0 then
    l.total, l.wrote = tonumber(sum), tonumber(written)
  end
  if till > l.now + HOUR or other < 1 or other > MOST
    or math.max(l.total or 0, math.abs(l.wrote or 0)) > MOST then
    l.total, l.wrote, till = nil, nil, 0
  end
  if field and till <= l.now then
    l.longest, l.afresh, other = false, other > l.interval, 0
  end
  if lasted > l.interval and lasted <= MOST and lasted % 1 == 0 then
    other = math.max(other, lasted)
    till = l.now + math.min(other, HOUR)
  end
  if other > 0 then
    l.longest = string.format('%d %d', other, till)
  end
  if l.interval > 0 and other > l.interval then
    l.span, l.afresh = other, true
  end
end
