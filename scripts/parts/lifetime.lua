-- lifetime.lua: gives value and permits the life of the hash; keep, the ms to keep alive, gives all of
-- them that time anew. It is an interval and a second at least: whoever waits for permits must not find,
-- in the ms in which they come back, that the limiter has just expired. A pair of our own in a limiter
-- that lives for ever gets a life of its own, past its last record: then it is full again anyway.
--
-- in:       keep, interval, own
-- out:      none
-- changes:  none
-- writes:   yes
-- ends the script: no

if keep > 0 then
  local ttl = math.max(keep, interval + 1000) -- that second
  redis.call('PEXPIRE', KEYS[1], ttl)
  redis.call('PEXPIRE', KEYS[2], ttl)
  redis.call('PEXPIRE', KEYS[3], ttl)
else
  local MINUTE = 60000
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl <= 0 and own then
    ttl = 2 * math.max(0, interval) + MINUTE
  end
  if ttl > 0 then
    redis.call('PEXPIRE', KEYS[2], ttl)
    redis.call('PEXPIRE', KEYS[3], ttl)
  end
end
