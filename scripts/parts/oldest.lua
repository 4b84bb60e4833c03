-- oldest.lua: the oldest record that counts.

-- setOldest sets l.head, the oldest record that counts and its time, which is empty if there is none, and
-- l.since, its time as a number.
local function setOldest(l, head)
  l.head = head
  local at = tonumber(head[2])
  if head[1] and not at then -- an infinite time: not every Lua reads inf as a number
    at = string.sub(head[2], 1, 1) == '-' and -math.huge or math.huge
  end
  if at and at % 1 ~= 0 then
    at, l.astray = math.ceil(at), true -- now is a whole ms, so the record expires with the next one
  end
  if at and at > l.now then
    -- include parts/ahead.lua
    at = bounded(l, head[1], at)
  end
  l.since = at
end
