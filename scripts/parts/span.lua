-- span.lua: finds the longest interval that was in use on a limiter lately: by versions that take turns,
-- each of which sets its own. Its records stay, and so do the keys.
--
-- in:       interval, now, MOST, f (of the hash: at 6 longest, which holds `interval until`),
--           lasted (the interval that is replaced; 0 if none is), span, longest, afresh
-- out:      none
-- changes:  span (the longest of these intervals), longest (what the field is to hold; nil if that is
--           right, false if it must go), afresh (the value may be that of another interval)
-- writes:   no
-- ends the script: no

if f[6] or lasted > interval then
  local HOUR = 3600000 -- ms; bounds how long a version must be gone before its records may go
  local other, till = string.match(f[6] or '', '^(%d+) (%d+)$')
  other, till = tonumber(other or 0) or 0, tonumber(till or 0) or 0
  if f[6] and (till <= now or till > now + HOUR or other < 1 or other > MOST) then
    longest, afresh, other = false, other > interval, 0
  end
  if lasted > interval and lasted <= MOST and lasted % 1 == 0 then
    other = math.max(other, lasted)
    longest = string.format('%d %d', other, now + math.min(other, HOUR))
  end
  if interval > 0 and other > interval then
    span, afresh = other, true
  end
end
