-- since.lua: sets since to the time of the oldest record that counts, as a number.
--
-- in:       head, now, timed, interval, since, astray
-- out:      none
-- changes:  since (nil where no record counts), astray
-- writes:   no
-- ends the script: no

since = tonumber(head[2])
if head[1] and not since then -- an infinite time: not every Lua reads inf as a number
  since = string.sub(head[2], 1, 1) == '-' and -math.huge or math.huge
end
if since and since % 1 ~= 0 then
  since, astray = math.ceil(since), true -- now is a whole ms, so the record expires with the next one
end
if since and since > now then
  local member, at = head[1], since
  -- include parts/ahead.lua
  since = at
end
