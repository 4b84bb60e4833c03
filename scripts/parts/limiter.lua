-- limiter.lua: reads a limiter and checks all of it, before anything is written.
--
-- ARGV[2]  the session: the name of a field of the hash, which is the Client's own (session.lua)
--
-- A given rate is what the acquire sets where no rate is set: `rate interval keep 0`, the times in ms. One
-- that ends in 1 also replaces another rate, interval or keep alive. The records stay: what they hold
-- counts against the new rate, also where only the hash was gone. The type is OVERALL where none is set,
-- and stays otherwise. The script that writes sets it (set.lua), if it writes anything.
--
-- While versions with different intervals take turns on a limiter, each counts the records of its own
-- interval. None removes what another one still counts (span.lua). The value is rebuilt in each call then
-- (tally.lua).
--
-- Errors, by their first word. A script that replies one of these has written nothing:
--   NOTINIT        rate, interval or type is not set
--   BADFIELD       a field of the hash is no integer up to 2^53: its name and what it holds
--   BADKEY         a key is of the wrong kind: its number, and the kind it should have. Another error of
--                  Redis, such as a missing right, is replied as it is
--   OTHERTYPE      the limiter has the other type: send the script again with the keys of that type
--
-- in:       givenRate (nil for none), count, now, timed, MOST, MANY, COUNTED
-- out:      rate, interval, keep (the configuration), own (the keys are those of one PER_CLIENT client),
--           session (what its field says, nil if the session is new: session.lua),
--           known (the session has seen this rate),
--           stored (what the value string says, nil if that is no integer),
--           value (the permits that are left; negative while more than the rate is outstanding),
--           expired (records of this time and older do not count any more),
--           gone (how many of those records are already back in the value, from the oldest on),
--           dead (how many of these are to be removed), span, longest (span.lua),
--           total (the permits of all records, without those to be removed; nil if they are not known),
--           charged (the permits that are outstanding, as the value says; nil if it does not),
--           back (the permits of those that the value did not have),
--           more (further records have expired that still count),
--           head (the oldest record that counts and its time; empty if there is none), since (its time),
--           astray (there may be records too far ahead, which finish.lua brings back: the oldest is one, or
--           has a time that is no whole ms, or this call is the one in this interval that checks them all),
--           free (permits are back at once, so that no record counts: Java accepts any interval),
--           set (rate, interval and keep are those of the given rate, and are to be written),
--           drift (permits by which the value was wrong: above 0 if it was too small)
-- changes:  none
-- writes:   no
-- ends the script: yes

local rate, interval, keep, own, session, known, stored, value
local set, drift, span, longest, total, charged = false, 0, nil, nil, nil, nil
do
  local f = redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime', ARGV[2], 'longest')
  if f.err then
    return string.find(f.err, '^WRONGTYPE') and redis.error_reply('BADKEY 1 hash') or f
  end
  set = not (f[1] and f[2] and f[3])
  local was, lasted = nil, 0
  if set and not givenRate then
    return redis.error_reply('NOTINIT no rate is set')
  elseif givenRate and (set or string.sub(givenRate, -1) == '1') then
    local r, i, k = string.match(givenRate, '^(%d+) (%d+) (%d+) ')
    if set or f[1] ~= r or f[2] ~= i or (f[4] or '0') ~= k then
      if not set then
        was, lasted = tonumber(f[1]), tonumber(f[2]) or 0
      end
      set = true
      f[1], f[2], f[3], f[4] = r, i, f[1] and f[2] and f[3] or '0', k
    end
  end
  rate, interval, keep, own = tonumber(f[1]), tonumber(f[2]), tonumber(f[4] or 0), f[3] == '1'
  if not (rate and interval and keep and rate % 1 + interval % 1 + keep % 1 == 0)
    or rate > MOST or rate < -MOST or keep > MOST or interval > MOST or interval < -MOST then
    for i, name in ipairs({ 'rate', 'interval', 'type', 'keepAliveTime' }) do
      local n = tonumber(f[i] or 0)
      if not n or n % 1 ~= 0 or math.abs(n) > MOST then
        local SHOWN = 40 -- bytes: the error is a line that a person reads
        local shown = string.gsub(string.sub(f[i], 1, SHOWN), '[^%w%p ]', '?')
        return redis.error_reply('BADFIELD ' .. name .. ' "' .. shown .. '"')
      end
    end
  end
  if own ~= (ARGV[1] == '1') then
    return redis.error_reply('OTHERTYPE ' .. (own and '1' or '0'))
  end
  local afresh, wrote = false, nil
  span = interval
  -- include parts/span.lua
  session = f[5]
  local seen = own and session and string.match(session, '^%d+ %d+ %-?%d+ %d+ (%-?%d+)$')
  known = seen and tonumber(seen) == rate

  local text = redis.pcall('GET', KEYS[2])
  if type(text) == 'table' then
    return string.find(text.err, '^WRONGTYPE') and redis.error_reply('BADKEY 2 string') or text
  end
  stored = tonumber(text)
  local rateThere = was or not set and rate or nil -- the rate that the value belongs to
  if own then
    rateThere = tonumber(seen or '')
  end
  charged = stored and stored % 1 == 0 and math.abs(stored) <= MOST and rateThere
    and rateThere - stored
  if own then
    total = nil
  elseif total and charged then
    total = math.max(0, total + wrote - stored) -- what Java has taken since or, as it has expired, removed
  end
  total = total or not f[6] and set and was and charged or nil
  -- A given rate that changes nothing but the rate changes the value by as much. An own value may be of
  -- another rate than the one before.
  local alike = not set or (was and lasted == interval and not own)
  local shift = set and alike and rate - was or 0
  if stored and (not alike or (stored + shift) % 1 ~= 0
    or math.max(math.abs(stored), math.abs(stored + shift)) > MOST) then
    stored = nil
  end
  value = not afresh and stored and stored + shift or nil
end

local head = redis.pcall('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')
if head.err then
  return string.find(head.err, '^WRONGTYPE') and redis.error_reply('BADKEY 3 zset') or head
end

-- Without records nothing is outstanding: the value is the rate. Otherwise the value is rebuilt from the
-- records in three cases:
--   1. It cannot be right: it is missing, or above the rate.
--   2. It is the own value of one client, and the session has not seen the rate: a client that changes the
--      rate cannot reach the values of others.
--   3. Records have expired, and either few records are left, or more than the value allows for, or the
--      value has not been checked for an interval. For others may leave it wrong (a release by Java, a
--      request that Java sent twice), and that must not last longer than an interval. If more than MANY
--      records are left, the value is not rebuilt but bounded by their number.
-- "Once an interval" needs no clock: cut time into pieces of an interval. The oldest record that has just
-- expired and the oldest that still counts lie in different pieces once in each interval, whichever client
-- calls. So one call in each interval pays for all.
--
-- However many records expire at once, a call counts up to COUNTED and leaves the rest to the next calls.
-- When no record counts any more, all are removed at once. If they are more than MANY, that is done before
-- anything new is written (acquire.lua, finish.lua).
local expired, free = now - interval, interval <= 0
local gone, dead, back, more = 0, 0, 0, false
local since, astray = nil, false
-- include parts/since.lua
do
  local initial, check = value, not value or value > rate or (own and not known)
  if free and head[1] then
    gone, head = redis.call('ZCARD', KEYS[3]), {}
    dead = gone
  elseif since and since <= expired and span > interval then
    gone = redis.call('ZCOUNT', KEYS[3], '-inf', string.format('%d', expired))
    dead = math.min(COUNTED, redis.call('ZCOUNT', KEYS[3], '-inf', string.format('%d', now - span)))
    head = redis.call('ZRANGE', KEYS[3], gone, gone, 'WITHSCORES')
    -- include parts/since.lua
  elseif since and since <= expired then
    local FEW = 10 -- to sum so many costs next to nothing
    local eldest, size, bound = since, redis.call('ZCARD', KEYS[3]), string.format('%d', expired)
    local old = size <= COUNTED and redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', bound)
      or redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', bound, 'LIMIT', '0', COUNTED)
    gone = #old
    head = redis.call('ZRANGE', KEYS[3], gone, gone, 'WITHSCORES')
    -- include parts/since.lua
    if since and since <= expired then
      more = (tonumber(redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')[2]) or math.huge) > expired
      if not more then
        head, gone = {}, size
      end
    end
    for i = 1, #old do
      back = back + count(old[i])
    end
    dead = gone
    astray = head[1] and (astray or math.floor(eldest / interval) ~= math.floor(since / interval))
    if head[1] and not check then
      local left = size - gone
      value = value + back
      if left <= MANY then
        check = value + left > rate or (left <= FEW and not more) or astray
      else
        -- Each record that is left holds a permit or more. That is not sure if those that have expired show
        -- that there are records of 0 permits, which Java may write.
        value = math.min(value, back >= gone and rate - left or rate)
      end
    end
  end
  if total and span > interval then
    local removed = dead > 0 and redis.call('ZRANGE', KEYS[3], 0, dead - 1) or {}
    for i = 1, #removed do
      total = total - count(removed[i])
    end
  elseif total then
    total = head[1] and total - back or 0
  end
  local found = value
  if not head[1] then
    value = rate
  elseif check then
    local sum = 0
    -- include parts/tally.lua
    value = rate - sum
  end
  -- Where the value was none or for another rate or interval, or not all expired records were counted, it
  -- says nothing.
  if value ~= found and initial and (not own or known) and not free and gone < COUNTED then
    drift = value - initial - back
  end
end
