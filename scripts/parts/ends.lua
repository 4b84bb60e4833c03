-- ends.lua: the end of a limiter that Expire, an operator or Java has given it.

-- endsIn returns when the limiter expires, in ms from now; infinity if it does not, or if calls prolong its
-- life. Whatever is taken then comes back at that time, at the latest.
local function endsIn(l)
  local ttl = l.keep <= 0 and not l.endless and l.hash('PTTL') or -1
  return ttl >= 0 and ttl + 1 or math.huge -- a key expires in the ms after its last one
end
