-- sessions.lua: removes old sessions, and other fields in the form of one. A session is what a Client noted
-- of its last request (all that one script call asks for): `number time amount where`, and for a PER_CLIENT
-- limiter the rate. amount are the permits that it took, with a minus those it gave back; where is the time
-- of their records; for a release 1 if there may be more to give back, else 0. Numbers have 16 digits, so
-- that comparing them as texts compares them as numbers. Java ignores the fields.
--
-- Before it: f[5], the session, is not of these ten seconds. A session looks when it is new, and then once a
-- minute. It removes those that were not used for a minute, unless there are only eight, which do no harm.

do
  local MINUTE, BEGINS, ENDS = 60000, 18, 30 -- ms: SessionLife of internal/request; the time in a session
  local OWN, WHOLE, SOME, PRIME, CURSORS = 13, 512, 100, 7919, 4294967296
  local used = tonumber(f[5] and string.sub(f[5], BEGINS, ENDS) or 0) or 0
  local fields = math.floor(used / MINUTE) ~= math.floor(now / MINUTE) and redis.call('HLEN', KEYS[1]) or 0
  if fields > OWN then
    -- Redis reads a hash of up to WHOLE fields at once, or SOME fields of a larger one: from a place that
    -- depends on the us of the last 1,000 s, and PRIME puts the places of successive calls far apart.
    local from = fields > WHOLE and (now % 1000000 * 1000 + us) * PRIME % CURSORS or 0
    local cursor = string.format('%d', from)
    local found = redis.call('HSCAN', KEYS[1], cursor, 'MATCH', 'session:*', 'COUNT', SOME)[2]
    for i = 1, #found, 2 do
      local time = tonumber(string.match(found[i + 1], '^%d+ (%d+)') or '')
      local old = not time or math.abs(now - time) > MINUTE
      if old and found[i] ~= ARGV[2] then
        redis.call('HDEL', KEYS[1], found[i])
      end
    end
  end
end
