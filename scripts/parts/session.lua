-- session.lua: what the session remembers of its last request (all that one script call asks for): `number
-- time amount where`, and for a PER_CLIENT limiter the rate. It is written before
-- records and value: a server without memory refuses it, and then nothing is half done. Java ignores the
-- field. Numbers of requests have 16 digits, so that comparing them as texts compares them as numbers.

-- remember writes the session of a request: its number, the permits it took (a text, with a minus for those
-- it gave back), and the time of their records; for a release 1 if there may be more to give back, else 0.
local function remember(l, number, took, at)
  local entry = number .. ' ' .. l.at .. ' ' .. took .. ' ' .. at
  l.hash('HSET', l.field, l.own and entry .. string.format(' %d', l.rate) or entry)
  -- The bytes of the time in the field, without its last four digits. These change within 10 s; a call that
  -- finds the rest of the time unchanged need not look for old sessions.
  local FROM, TO = 18, 26
  if not l.session or string.sub(l.session, FROM, TO) ~= string.sub(l.at, 1, TO - FROM + 1) then
    -- include parts/sweep.lua
    sweep(l)
  end
end
