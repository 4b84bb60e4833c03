-- session.lua: writes what the session remembers of its last request (all that one script call asks for):
-- `number time amount where`, and for a PER_CLIENT limiter the rate by which the value is right. It is
-- written before records and value: a server without memory refuses it, and then nothing is half done. Java
-- ignores the field. Numbers of requests have 16 digits, so that comparing them as texts compares them as
-- numbers.
--
-- It also removes sessions that have not been used for a minute, if there are more than 8 sessions. A
-- session does that when it is new, and then once a minute.
--
-- ARGV[2]  the session; ARGV[3] the number of the request
--
-- in:       now, text (now as a text), us, own, rate, session, known,
--           took (a text: permits taken, or minus the permits given back),
--           at (a text: the time of their records; for a release 1 if there may be more to give back, else 0)
-- out:      none
-- changes:  known
-- writes:   yes
-- ends the script: no

do
  local entry = ARGV[3] .. ' ' .. text .. ' ' .. took .. ' ' .. at
  redis.call('HSET', KEYS[1], ARGV[2], own and entry .. string.format(' %d', rate) or entry)
  known = own
  -- Where the field has the time, without its last four digits. They change within 10 s, so a call that
  -- finds the others unchanged skips the rest.
  local FROM, TO = 18, 26
  if not session or string.sub(session, FROM, TO) ~= string.sub(text, 1, TO - FROM + 1) then
    local MINUTE = 60000 -- ms; no copy of a request is sent later than that (sessionLife in request.go)
    local FEW = 4 + 8 -- the limiter's own fields, and as many sessions as are not worth a sweep
    -- A hash of up to ALL fields is swept in one call. Of a larger one, a call sweeps SOME fields. It begins
    -- at a place that depends on the us, and PRIME puts the places of successive calls far apart. CURSORS is
    -- more than such a hash has places. A new session looks at FIRST fields, and sweeps only if one of them
    -- is to be removed: where 1,000 Clients begin at once, each would go through the fields of all others.
    local ALL, SOME, FIRST = 1000, 100, 16
    local fields, place = 0, nil
    do
      local used = tonumber(session and string.match(session, '^%d+ (%d+)') or 0) or 0
      if math.floor(used / MINUTE) ~= math.floor(now / MINUTE) then
        fields = redis.call('HLEN', KEYS[1])
      end
      local PRIME, CURSORS = 7919, 4294967296
      -- The us of the last 1,000 s: all of now, times PRIME, would be more than a double holds exactly.
      place = string.format('%d', (now % 1000000 * 1000 + us) * PRIME % CURSORS)
    end
    local worth = fields > FEW
    for look = session and 2 or 1, 2 do
      local cursor, looked = '0', look == 1 and FIRST or ALL
      if look == 2 and fields > ALL then
        cursor, looked = place, SOME
      end
      local found = worth
        and redis.call('HSCAN', KEYS[1], cursor, 'MATCH', 'session:*', 'COUNT', looked)[2] or {}
      worth = false
      for i = 1, #found, 2 do
        local time = string.match(found[i + 1], '^%d+ (%d+)')
        if not time or math.abs(now - (tonumber(time) or 0)) > MINUTE then
          redis.call('HDEL', KEYS[1], found[i])
          worth = true
        end
      end
    end
  end
end
