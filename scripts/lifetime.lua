-- lifetime.lua: stands near the end of the scripts that change anything, before last.lua.
-- Value and permits live as long as the hash does; keep, the ms to keep alive, gives all of them that
-- time anew. It is an interval and a second at least: whoever waits for permits must not find, in the
-- ms in which they come back, that the limiter has just expired. A pair of our own in a limiter that
-- lives for ever gets a life of its own, past its last record: then it is full again anyway.

if keep > 0 then
  keep = math.max(keep, interval + 1000) -- that second
  redis.call('PEXPIRE', KEYS[1], keep)
  redis.call('PEXPIRE', KEYS[2], keep)
  redis.call('PEXPIRE', KEYS[3], keep)
else
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl <= 0 and own then
    ttl = 2 * math.max(0, interval) + 60000
  end
  if ttl > 0 then
    redis.call('PEXPIRE', KEYS[2], ttl)
    redis.call('PEXPIRE', KEYS[3], ttl)
  end
end
