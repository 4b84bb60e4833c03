-- span.lua: finds the longest interval that was in use on a limiter lately: by versions that take turns,
-- each of which sets its own. Its records stay, and so do the keys.
--
-- The field `longest` holds `interval until total value`: the permits of all records, and the value that was
-- written with them. The value alone cannot tell what the records of another interval hold. finish.lua
-- writes the field. Its last two numbers are missing where they are not known, and for PER_CLIENT, whose
-- clients have records of their own.
--
-- in:       interval, now, MOST, f (of the hash: at 6 longest),
--           lasted (the interval that is replaced; 0 if none is), span, longest, afresh, total, wrote
-- out:      none
-- changes:  span (the longest of these intervals), longest (the first two numbers that the field is to hold;
--           nil if there is none, false if it must go), afresh (the value may be that of another interval),
--           total, wrote (the last two numbers)
-- writes:   no
-- ends the script: no

if f[6] or lasted > interval then
  local HOUR = 3600000 -- ms; bounds how long a version must be gone before its records may go
  local other, till, sum, written = string.match(f[6] or '', '^(%d+) (%d+) ?(%d*) ?(%-?%d*)$')
  other, till = tonumber(other or 0) or 0, tonumber(till or 0) or 0
  if sum and #sum > 0 and #written > 0 then
    total, wrote = tonumber(sum), tonumber(written)
  end
  if till > now + HOUR or other < 1 or other > MOST or math.max(total or 0, math.abs(wrote or 0)) > MOST then
    total, wrote, till = nil, nil, 0
  end
  if f[6] and till <= now then
    longest, afresh, other = false, other > interval, 0
  end
  if lasted > interval and lasted <= MOST and lasted % 1 == 0 then
    other = math.max(other, lasted)
    till = now + math.min(other, HOUR)
  end
  if other > 0 then
    longest = string.format('%d %d', other, till)
  end
  if interval > 0 and other > interval then
    span, afresh = other, true
  end
end
