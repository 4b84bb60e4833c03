-- lifetime.lua: the time to live of the keys. With a keep alive time (l.keep), all three keys live that long
-- from now on. It is at least an interval and a second: a caller that waits for permits must not find that
-- the limiter expired in the ms in which they come back.
--
-- Without one, value and permits live as long as the hash. If the hash lives for ever, so does a shared pair.
-- A pair of one PER_CLIENT client expires after its last record has: then all permits are back anyway, and
-- many clients come and never return.

-- setLifetime sets the time to live. l.span is the interval, or a longer one that is still in use.
local function setLifetime(l)
  local SECOND, MINUTE = 1000, 60000 -- ms; with a short interval, keys should not come and go with every call
  local ttl
  if l.keep > 0 then
    ttl = math.max(l.keep, l.span + SECOND)
    l.hash('PEXPIRE', ttl)
  else
    ttl = l.hash('PTTL')
    if ttl <= 0 and l.own then
      ttl = 2 * math.max(0, l.span) + MINUTE -- a record may be dated an interval ahead (ahead.lua)
    end
  end
  if ttl > 0 then
    l.text('PEXPIRE', ttl)
    l.records('PEXPIRE', ttl)
  end
end
