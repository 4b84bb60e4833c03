-- lifetime.lua: the lives of the three keys. Another program may have set or removed the time to live of one
-- of them. After this, value and permits live as long as the hash: no record expires while it counts, and
-- none stays when the hash has gone.
--
-- With a keep alive time (l.keep), all keys live that long from now on. It is at least an interval and a
-- second: a caller that waits for permits must not find that the limiter expired in the ms in which they come
-- back. Nothing is written if all live for l.lasts or longer, the hash not longer than the others, and they
-- little longer than the hash.
--
-- Without one, the hash lives as long as it did, and the others as long as the hash. Only the pair of one
-- PER_CLIENT client expires after its last record has if the hash lives for ever: then all permits are back
-- anyway, and many clients come and never return.

-- setLifetime sets the time to live. l.span is the interval, or a longer one that is still in use.
local function setLifetime(l)
  local SECOND, MINUTE = 1000, 60000 -- ms; with a short interval, keys should not come and go with every call
  local ttl
  if l.keep > 0 then
    local least = l.span + SECOND
    if l.lasts then
      local text, records = l.text('PTTL'), l.records('PTTL')
      ttl = l.hash('PTTL')
      if ttl >= l.lasts and ttl <= math.min(text, records) and math.max(text, records) <= ttl + least then
        return
      end
    end
    ttl = math.max(l.keep, least)
    l.hash('PEXPIRE', ttl)
  else
    ttl = l.hash('PTTL')
    if ttl < 0 and l.own then
      ttl = 2 * math.max(0, l.span) + MINUTE -- a record may be dated an interval ahead (ahead.lua)
    end
  end
  if ttl >= 0 then
    ttl = math.max(1, ttl) -- 0 is the last ms
    l.text('PEXPIRE', ttl)
    l.records('PEXPIRE', ttl)
  elseif l.text('PTTL') >= 0 or l.records('PTTL') >= 0 then
    l.text('PERSIST')
    l.records('PERSIST')
  end
end
