-- lifetime.lua: sets the time to live of the keys. With a keep alive time (keep), all three keys
-- live that long from now on. It is at least an interval and a second: a caller that waits for permits must
-- not find that the limiter expired in the ms in which they come back.
--
-- Without one, value and permits live as long as the hash. If the hash lives for ever, so does a shared pair.
-- A pair of one PER_CLIENT client expires after its last record has: then all permits are back anyway, and
-- many clients come and never return.
--
-- in:       keep, span (the interval, or a longer one that is still in use), own
-- out:      none
-- changes:  none
-- writes:   yes
-- ends the script: no

if keep > 0 then
  local SECOND = 1000 -- ms
  local ttl = math.max(keep, span + SECOND)
  redis.call('PEXPIRE', KEYS[1], ttl)
  redis.call('PEXPIRE', KEYS[2], ttl)
  redis.call('PEXPIRE', KEYS[3], ttl)
else
  local MINUTE = 60000 -- ms; with a short interval, keys should not come and go with every call
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl <= 0 and own then
    ttl = 2 * math.max(0, span) + MINUTE -- a record may be dated an interval ahead (ahead.lua)
  end
  if ttl > 0 then
    redis.call('PEXPIRE', KEYS[2], ttl)
    redis.call('PEXPIRE', KEYS[3], ttl)
  end
end
