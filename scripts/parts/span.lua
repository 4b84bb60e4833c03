-- span.lua: finds the longest interval that was in use on a limiter lately, where versions take turns and
-- each sets its own. Records and keys stay for the longest interval.
--
-- The field `longest` holds `interval until`; older versions write two more numbers. finish.lua writes it.

-- setSpan sets l.span, the longest of these intervals; l.longest, what the field is to hold, nil if there is
-- none, false if it must go; and l.afresh, if the value may be that of another interval. field is what
-- `longest` says, or nil; lasted is the interval that is replaced, 0 if none is.
local function setSpan(l, field, lasted)
  local HOUR = 3600000 -- ms; bounds how long the records of an unused version are kept
  local other, till = string.match(field or '', '^(%d+) (%d+) ?%d* ?%-?%d*$')
  other, till = tonumber(other or 0) or 0, tonumber(till or 0) or 0
  if till > l.now + HOUR or other < 1 or other > MOST then
    till = 0
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
