-- read.lua: reads a limiter and checks all of it, before anything is written.
--
-- A given rate is what the acquire sets where no rate is set: `rate interval keep 0`, the times in ms. One
-- that ends in 1 also replaces another rate, interval or keep alive. The records stay, and their permits
-- count against the new rate, even if only the hash was gone. The type is OVERALL where none is set, and
-- stays otherwise. The script that writes sets it (take.lua), if it writes anything.
--
-- While versions with different intervals take turns on a limiter, each counts the records of its own
-- interval. None removes records that another one still counts (span.lua), and each call rebuilds the value
-- (sum.lua).
--
-- Errors, by their first word. A script that replies one of these has written nothing:
--   NOTINIT        rate, interval or type is not set
--   BADFIELD       a field of the hash is no integer up to 2^53: its name and what it holds
--   BADKEY         a key is of the wrong kind: its number, and the kind it should have. Another error of
--                  Redis, such as a missing right, is replied as it is
--   OTHERTYPE      the limiter has the other type: send the script again with the keys of that type
--
-- read(l, kind, field, given, seen) takes ARGV[1], ARGV[2] (the session: a field of the hash that is the
-- Client's own, session.lua), the given rate or nil, and what was read already (common_case.lua) or nil. It
-- returns an error, or nil after it has set in the limiter l, which has hash, text, records (keys.lua), now,
-- us and timed (common.lua):
--   field, session  the field, and what it says; nil if the session is new
--   rate, interval, keep, own  the configuration; own: the keys are those of one PER_CLIENT client
--   known, vouched  an own value is right for this rate; and its voucher is of these 10 s (vouch.lua)
--   set             rate, interval and keep are those of the given rate, and are to be written
--   endless         with them the hash loses its time to live: it has that of a keep alive, or of no rate
--   replaces        the limiter has another rate, interval or keep alive, which these are to replace
--   stored          what the value string says, nil if that is no integer
--   value           the permits that are left; negative while more than the rate is outstanding
--   expired         records of this time and older do not count any more
--   gone            how many of those records are already back in the value, from the oldest on
--   dead            how many of these are to be removed
--   back            the permits of those that the value did not have
--   more            further records have expired that still count
--   head, since     the oldest record that counts and its time (ahead.lua)
--   astray          there may be records too far ahead, which finish.lua brings back: the oldest is one, or
--                   has a time that is no whole ms, or this call is the one in this interval that checks all
--   free            permits are back at once, so that no record counts: Java accepts any interval
--   span, longest   span.lua
--   charged         the permits that are outstanding, as the value says; nil if it does not
--   unseen          parts/unseen.lua; nil if not
--   drift           permits by which the value was wrong: above 0 if it was too small

-- include parts/oldest.lua

-- readHash reads the configuration out of the fields. It returns an error, or nil, then the rate and the
-- interval that the given rate replaces, if it does.
local function readHash(l, f, kind, given)
  local there, was, lasted = f[1] and f[2] and f[3], nil, 0
  if not there and not given then
    return redis.error_reply('NOTINIT no rate is set')
  elseif given and (not there or string.sub(given, -1) == '1') then
    local r, i, k = string.match(given, '^(%d+) (%d+) (%d+) ')
    if not there or f[1] ~= r or f[2] ~= i or (f[4] or '0') ~= k then
      if there then
        l.replaces, was, lasted = true, tonumber(f[1]), tonumber(f[2]) or 0
      end
      l.set, l.endless = true, k == '0' and (not there or (tonumber(f[4] or 0) or 0) > 0)
      f[1], f[2], f[3], f[4] = r, i, there and f[3] or '0', k
    end
  end
  local rate, interval, keep, own = tonumber(f[1]), tonumber(f[2]), tonumber(f[4] or 0), f[3] == '1'
  local whole = rate and interval and keep and rate % 1 + interval % 1 + keep % 1 == 0
  if not whole or math.max(math.abs(rate), math.abs(interval), keep) > MOST then
    -- include parts/bad.lua
    local err = badField(f)
    if err then
      return err
    end
  end
  if own ~= (kind == '1') then
    return redis.error_reply('OTHERTYPE ' .. (own and '1' or '0'))
  end
  l.rate, l.interval, l.keep, l.own, l.session, l.span = rate, interval, keep, own, f[5], interval
  if f[6] or lasted > interval then
    -- include parts/span.lua
    setSpan(l, f[6], lasted)
  end
  return nil, was, lasted
end

-- readValue reads the value string, and finds out for which rate and interval it is. was and lasted are from
-- readHash.
local function readValue(l, reply, was, lasted)
  local own, rate, stored = l.own, l.rate, tonumber(reply)
  local seen
  if own then
    local FROM, TO = 18, 26 -- the time of the voucher, without its last four digits
    local voucher = l.hash('VOUCHER') or ''
    seen = string.match(voucher, '^%d+ %d+ 0 0 (%-?%d+)$')
    l.known = seen and tonumber(seen) == rate
    l.vouched = l.known and string.sub(voucher, FROM, TO) == string.sub(l.at, 1, TO - FROM + 1)
  end
  local rateThere = was or not l.set and rate or nil -- the rate that the value belongs to
  if own then
    rateThere = tonumber(seen or '')
  end
  l.charged = stored and stored % 1 == 0 and math.abs(stored) <= MOST and rateThere and rateThere - stored
  -- If only the rate changes, the value changes by the same difference. An own value may be of another
  -- rate than the one before.
  local alike = not l.set or (was and lasted == l.interval and not own)
  local shift = l.set and alike and rate - was or 0
  if stored and (not alike or (stored + shift) % 1 ~= 0
    or math.max(math.abs(stored), math.abs(stored + shift)) > MOST) then
    stored = nil
  end
  l.stored, l.value = stored, not l.afresh and stored and stored + shift or nil
end

-- countExpired finds the records that have expired since the last call, and returns whether the value must be
-- rebuilt from the records.
--
-- Without records nothing is outstanding: the value is the rate. Otherwise the value is rebuilt in three
-- cases:
--   1. It cannot be right: it is missing, or above the rate.
--   2. It is an own value, and no voucher says that it is right for the rate: a client that changes the rate
--      cannot reach the values of other clients.
--   3. Records have expired, and either few records are left, or more than the value allows for, or the
--      value has not been checked for an interval. For Java may leave it wrong (by a release, or a request
--      that it sent twice), and that must not last longer than an interval. If more than MANY
--      records are left, the value is not rebuilt but bounded by their number.
--   4. Java removes records before Go finds them expired, because its clock is ahead: parts/unseen.lua.
-- "Once an interval" needs no clock: cut time into pieces of an interval. The oldest record that has just
-- expired and the oldest that still counts lie in different pieces once in each interval, whichever client
-- calls. So one call in each interval pays for all.
--
-- However many records expire at once, a call counts up to COUNTED and leaves the rest to the next calls.
-- When no record counts any more, all are removed at once. If they are more than MANY, that is done before
-- anything new is written (judge.lua, finish.lua).
local function countExpired(l)
  local FEW = 10 -- records: summing them costs next to nothing
  local expired, check = l.expired, not l.value or l.value > l.rate or (l.own and not l.known)
  if l.free and l.head[1] then
    l.gone, l.head = l.records('ZCARD'), {}
    l.dead = l.gone
  elseif l.since and l.since <= expired and l.span > l.interval then
    l.gone = l.records('ZCOUNT', '-inf', string.format('%d', expired))
    l.dead = math.min(COUNTED, l.records('ZCOUNT', '-inf', string.format('%d', l.now - l.span)))
    setOldest(l, l.records('ZRANGE', l.gone, l.gone, 'WITHSCORES'))
  elseif l.since and l.since <= expired then
    local eldest, size, bound = l.since, l.records('ZCARD'), string.format('%d', expired)
    local old = size <= COUNTED and l.records('ZRANGEBYSCORE', '-inf', bound)
      or l.records('ZRANGEBYSCORE', '-inf', bound, 'LIMIT', '0', COUNTED)
    l.gone = #old
    setOldest(l, l.records('ZRANGE', l.gone, l.gone, 'WITHSCORES'))
    if l.since and l.since <= expired then
      l.more = (tonumber(l.records('ZRANGE', '-1', '-1', 'WITHSCORES')[2]) or math.huge) > expired
      if not l.more then
        l.head, l.gone = {}, size
      end
    end
    for i = 1, #old do
      l.back = l.back + count(old[i])
    end
    l.dead = l.gone
    l.astray = l.head[1] and (l.astray or math.floor(eldest / l.interval) ~= math.floor(l.since / l.interval))
    if l.head[1] and not check then
      local left = size - l.gone
      l.value = l.value + l.back
      if left <= MANY then
        check = l.value + left > l.rate or (left <= FEW and not l.more) or l.astray
      else
        -- Each remaining record holds a permit or more, unless the expired ones show that there are records
        -- of 0 permits, which Java may write.
        l.value = math.min(l.value, l.back >= l.gone and l.rate - left or l.rate)
      end
    end
  end
  -- include parts/unseen.lua
  return check or sums or l.heals and l.records('ZCARD') <= MANY
end

-- settleValue sets the value.
local function settleValue(l, check, initial)
  local found = l.value
  if not l.head[1] then
    l.value = l.rate
  elseif check then
    -- include parts/sum.lua
    l.value = l.rate - sumRecords(l)
  end
  -- There is no drift to report if there was no value, if it was for another rate or interval, or if not all
  -- expired records were counted.
  if l.value ~= found and initial and (not l.own or l.known) and not l.free and l.gone < COUNTED then
    l.drift = l.value - initial - l.back
  end
end

local function read(l, kind, field, given, seen)
  l.field = field
  local f = seen and seen.hash
    or l.hash('HMGET', 'rate', 'interval', 'type', 'keepAliveTime', field, 'longest')
  if f.err then
    -- include parts/bad.lua
    return badKey(f, '1 hash')
  end
  local err, was, lasted = readHash(l, f, kind, given ~= '' and given or nil)
  if err then
    return err
  end
  local reply = seen and seen.text
  if not seen then
    reply = l.text('GET')
  end
  if type(reply) == 'table' then
    -- include parts/bad.lua
    return badKey(reply, '2 string')
  end
  readValue(l, reply, was, lasted)
  local head = seen and seen.oldest or l.records('OLDEST')
  if head.err then
    -- include parts/bad.lua
    return badKey(head, '3 zset')
  end
  l.expired, l.free = l.now - l.interval, l.interval <= 0
  local initial = l.value
  setOldest(l, head)
  settleValue(l, countExpired(l), initial)
end
