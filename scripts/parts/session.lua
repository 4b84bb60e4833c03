-- session.lua: writes what the session remembers of this request: `time number amount where`, and for a
-- PER_CLIENT limiter the rate by which the value is right. It is the first that a script writes: a server
-- that has no memory left refuses it, and then nothing has been written. Java passes over the field.
--
-- Sessions that nobody has used for a minute are swept out where there are more than 8: when a session is
-- new, and once a minute. A call looks at 1,000 fields at most; where there are more, at some 100 of them,
-- somewhere in the hash.
--
-- ARGV[2]  the session; ARGV[3] the number of the request
--
-- in:       now, us, own, rate, used, took (permits, below 0 those that were given back), at (of their records)
-- out:      none
-- changes:  none
-- writes:   yes
-- ends the script: no

do
  local MINUTE, FEW, ALL, SOME, PRIME = 60000, 4 + 8, 1000, 100, 7919
  local entry = string.format(own and '%d %s %d %d %d' or '%d %s %d %d', now, ARGV[3], took, at, rate)
  redis.call('HSET', KEYS[1], ARGV[2], entry)
  local fields = (not used or now - used + used % MINUTE >= MINUTE) and redis.call('HLEN', KEYS[1]) or 0
  if fields > FEW then
    local cursor, looked = '0', ALL
    if fields > ALL then
      cursor, looked = string.format('%d', (now % 1000000 * 1000 + us) * PRIME % 4294967296), SOME
    end
    local found = redis.call('HSCAN', KEYS[1], cursor, 'MATCH', 'session:*', 'COUNT', looked)[2]
    for i = 1, #found, 2 do
      local time = tonumber(string.match(found[i + 1], '^%d+'))
      if not time or time < now - MINUTE then
        redis.call('HDEL', KEYS[1], found[i])
      end
    end
  end
end
