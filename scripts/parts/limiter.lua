-- limiter.lua: reads a limiter and checks all of it, before anything is written.
--
-- ARGV[2]  the session: the name of a field of the hash, which is the Client's own (session.lua)
--
-- Errors, by their first word; whatever a script answers with one of these, it has written nothing:
--   NOTINIT        rate, interval or type is not set
--   BADFIELD       a field of the hash is no integer up to 2^53: its name and what it holds
--   BADKEY         a key of another kind is in the way: its number, and the kind it should have
--   OTHERTYPE      the limiter has the other type: ask again with the keys of that one
--
-- in:       none
-- out:      count, packed, now, us, timed, MOST (common.lua),
--           rate, interval, keep (the configuration), own (the keys are those of one PER_CLIENT client),
--           session (what its field says, nil if it is new: session.lua), known (it has seen this rate),
--           stored (what the value string says, nil where that is no integer),
--           value (the permits to take now; negative while there is debt),
--           expired (records of this time and older do not count any more),
--           gone (how many records of those the value counts as back, from the oldest on), back (their permits),
--           more (there are others of those, which still count),
--           head (the oldest record that counts and its time; empty if there is none), since (its time),
--           astray (there may be records too far ahead: the oldest is, or has no whole ms; or it is the call
--           that pays for all in this interval. finish.lua brings them back),
--           free (what is taken is back at once, so that nothing counts: Java takes any interval),
--           MANY (so many records take 1 ms to remove)
-- changes:  none
-- writes:   no
-- ends the script: yes

-- include parts/common.lua
local rate, interval, keep, own, session, known, stored
do
  local f = redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime', ARGV[2])
  if f.err then
    return redis.error_reply('BADKEY 1 hash')
  elseif not (f[1] and f[2] and f[3]) then
    return redis.error_reply('NOTINIT no rate is set')
  end
  rate, interval, keep, own = tonumber(f[1]), tonumber(f[2]), tonumber(f[4] or 0), f[3] == '1'
  if not (rate and interval and keep and rate % 1 + interval % 1 + keep % 1 == 0)
    or rate > MOST or rate < -MOST or keep > MOST or interval > MOST or interval < -MOST then
    for i, name in ipairs({ 'rate', 'interval', 'type', 'keepAliveTime' }) do
      local n = tonumber(f[i] or 0)
      if not n or n % 1 ~= 0 or math.abs(n) > MOST then
        local SHOWN = 40 -- the error is a line that somebody reads
        local shown = string.gsub(string.sub(f[i], 1, SHOWN), '[^%w%p ]', '?')
        return redis.error_reply('BADFIELD ' .. name .. ' "' .. shown .. '"')
      end
    end
  end
  if own ~= (ARGV[1] == '1') then
    return redis.error_reply('OTHERTYPE ' .. (own and '1' or '0'))
  end
  session = f[5]
  local seen = own and session and string.match(session, '^%d+ %d+ %-?%d+ %d+ (%-?%d+)$')
  known = seen and tonumber(seen) == rate

  local text = redis.pcall('GET', KEYS[2])
  if type(text) == 'table' then
    return redis.error_reply('BADKEY 2 string')
  end
  stored = tonumber(text)
  if stored and (stored % 1 ~= 0 or stored > MOST or stored < -MOST) then
    stored = nil
  end
end

local head = redis.pcall('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')
if head.err then
  return redis.error_reply('BADKEY 3 zset')
end

-- Without records nothing is outstanding. Otherwise the value is rebuilt from them when it cannot be
-- right. What others have left in it (a release by Java, a request that Java sent twice) must not
-- last longer than an interval; so it is rebuilt, too, when something has expired and either few
-- records are left, or there are more than the value allows for, or it has gone unchecked for an
-- interval: between the oldest record that has expired just now and the oldest that counts lies a
-- multiple of the interval once an interval, whoever asks, so one call in each pays for all (1 ms
-- for 4,000 records; beyond them the value is only kept below what that many records allow). And a
-- pair of our own is rebuilt when the rate is not the one that the session has seen: whoever changed
-- the rate could not reach it.
--
-- However many records expire at once, a call counts 1,000 of them and leaves the rest to the next
-- ones. When none counts any more, they go all at once; beyond MANY before anything is written
-- (acquire.lua, finish.lua).
local MANY = 4000
local expired, value, gone, back, more, free = now - interval, stored, 0, 0, false, interval <= 0
local since, astray = nil, false
-- include parts/since.lua
do
  local check = not value or value > rate or (own and not known)
  if free and head[1] then
    gone, head = redis.call('ZCARD', KEYS[3]), {}
  elseif since and since <= expired then
    local COUNTED, FEW = 1000, 10
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
    astray = head[1] and (astray or math.floor(eldest / interval) ~= math.floor(since / interval))
    if head[1] and not check then
      local left = size - gone
      value = value + back
      if left <= MANY then
        check = value + left > rate or (left <= FEW and not more) or astray
      else -- records of nothing, which Java may write, say nothing of those that are left
        value = math.min(value, back >= gone and rate - left or rate)
      end
    end
  end
  if not head[1] then
    value = rate
  elseif check then
    local sum, rank = 0, gone
    -- include parts/outstanding.lua
    value = rate - sum
  end
end
