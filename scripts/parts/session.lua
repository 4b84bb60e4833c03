-- session.lua: writes what the session remembers of this request: `number time amount where`, and for a
-- PER_CLIENT limiter the rate by which the value is right. It is written before records and value: a
-- server that has no memory left refuses it, and then nothing is half done. Java passes over the field.
-- Numbers have 16 digits, so that to compare them as texts is to compare them as numbers.
--
-- Sessions that nobody has used for a minute are swept out where there are more than 8: when a session is
-- new, and once a minute. A call looks at 1,000 fields at most; where there are more, at some 100 of them,
-- somewhere in the hash.
--
-- ARGV[2]  the session; ARGV[3] the number of the request
--
-- in:       now, text (the same), us, own, rate, session, took (a text: permits, below 0 those that were given
--           back), at (a text: the time of their records; of a release 1 if there may be more to give back,
--           otherwise 0)
-- out:      none
-- changes:  none
-- writes:   yes
-- ends the script: no

do
  local entry = ARGV[3] .. ' ' .. text .. ' ' .. took .. ' ' .. at
  redis.call('HSET', KEYS[1], ARGV[2], own and entry .. string.format(' %d', rate) or entry)
  local FROM, TO = 18, 26 -- where the time stands in the field, without its last digits: they change every 10 s
  if not session or string.sub(session, FROM, TO) ~= string.sub(text, 1, TO - FROM + 1) then
    local MINUTE, FEW, ALL, SOME = 60000, 4 + 8, 1000, 100 -- FEW: the limiter's own fields, and 8 sessions
    local PRIME = 7919 -- spreads the places in the hash where one begins to look
    local used = tonumber(session and string.match(session, '^%d+ (%d+)') or 0)
    local another = math.floor(used / MINUTE) ~= math.floor(now / MINUTE)
    local fields, cursor, looked = another and redis.call('HLEN', KEYS[1]) or 0, '0', ALL
    if fields > ALL then
      cursor, looked = string.format('%d', (now % 1000000 * 1000 + us) * PRIME % 4294967296), SOME
    end
    local found = fields > FEW and redis.call('HSCAN', KEYS[1], cursor, 'MATCH', 'session:*', 'COUNT', looked)[2] or {}
    for i = 1, #found, 2 do
      local time = string.match(found[i + 1], '^%d+ (%d+)')
      if not time or math.abs(now - tonumber(time)) > MINUTE then
        redis.call('HDEL', KEYS[1], found[i])
      end
    end
  end
end
