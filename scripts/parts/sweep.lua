-- sweep.lua: removes old sessions.

-- sweep removes sessions that have not been used for a minute, if there are more than 8 sessions. It
-- does so when the session of the call is new, and then once a minute.
local function sweep(l)
  local MINUTE = 60000 -- ms; no copy of a request is sent later than that (sessionLife in request.go)
  local FEW = 5 + 8 -- the limiter's own fields, and eight sessions, which are not worth a sweep
  local used = tonumber(l.session and string.match(l.session, '^%d+ (%d+)') or 0) or 0
  if math.floor(used / MINUTE) == math.floor(l.now / MINUTE) then
    return
  end
  local fields = l.hash('HLEN')
  -- A hash of up to ALL fields is swept in one call. Of a larger one, a call sweeps SOME fields. It begins
  -- at a place that depends on the us, and PRIME puts the places of successive calls far apart. CURSORS is
  -- more than such a hash has places. A new session looks at FIRST fields, and sweeps only if one of them
  -- is to be removed: otherwise, if 1,000 Clients begin at once, each would read the fields of all of them.
  local ALL, SOME, FIRST, PRIME, CURSORS = 1000, 100, 16, 7919, 4294967296
  local worth = fields > FEW
  for look = l.session and 2 or 1, 2 do
    local cursor, looked = '0', look == 1 and FIRST or ALL
    if look == 2 and fields > ALL then
      -- The us of the last 1,000 s: all of now, times PRIME, would be more than a double holds exactly.
      cursor, looked = string.format('%d', (l.now % 1000000 * 1000 + l.us) * PRIME % CURSORS), SOME
    end
    local found = worth and l.hash('HSCAN', cursor, 'MATCH', 'session:*', 'COUNT', looked)[2] or {}
    worth = false
    for i = 1, #found, 2 do
      local time = string.match(found[i + 1], '^%d+ (%d+)')
      if not time or math.abs(l.now - (tonumber(time) or 0)) > MINUTE then
        l.hash('HDEL', found[i])
        worth = true
      end
    end
  end
end
