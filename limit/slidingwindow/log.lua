-- log.lua: takes permits of a sliding log, or gives them back.
--
-- KEYS[1]  the records, a sorted set by time, in us. A member is "SUM:PERMITS": the sum of all
--          permits that were taken before it, and its own
-- ARGV[1]  the permits, negative if they are given back
-- ARGV[2]  the rate
-- ARGV[3]  the interval, in us
-- ARGV[4]  the slice of time whose grants are one record, in us
-- Reply:   1 taken, or 0; what is left; when the permits and when all are back, in us

local MOST, ROUND = 2 ^ 40, 2 ^ 48 -- the most permits of a limit; a sum begins anew there
local LOOKS = 100 -- more than any set needs

local n, rate, interval, slice = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ended = string.format('%.0f', now - interval) -- records up to then are over
-- The key lives longer than this interval if others have a longer one, as before a change of
-- the limit. Their records stay; ours are fewer, so that they are not too many.
local ttl = redis.call('PTTL', KEYS[1])
local longer = ttl > math.ceil(interval / 1000) + 1

-- record returns the time of a record, the sum before it, its permits, and the member. Somebody
-- else may have written anything: then there is no sum.
local function record(rank)
  local found = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')
  if not found[1] then
    return nil
  end
  local at = tonumber(found[2]) or math.huge
  local sum, permits = string.match(found[1], '^(%d+):(%d+)$')
  sum, permits = tonumber(sum), tonumber(permits)
  if not sum or sum >= ROUND or permits < 1 or permits > MOST then
    return at, nil, nil, found[1]
  end
  return at, sum, permits, found[1]
end

-- What counts are the records from rank old on. The last of them is at, sum, permits, member.
local at, sum, permits, member = record(-1)
local since, base = record(0)
local old, used, lasts = 0, 0, false
if at and since <= now - interval then
  old = redis.call('ZCOUNT', KEYS[1], '-inf', ended)
  since, base = record(old)
end
if at and at > now then -- the clock was set back: nobody knows how long others count
  ttl, longer = -1, false
end
if since and since > now - interval then
  used = sum and base and (sum + permits - base) % ROUND
  if not used or used < permits then -- nobody knows what was taken: all, and now
    redis.call('UNLINK', KEYS[1])
    ttl, longer = -1, false
    at, base, sum, permits, used, old = now, 0, 0, rate, rate, 0
    member = string.format('0:%.0f', rate)
    redis.call('ZADD', KEYS[1], string.format('%.0f', now), member)
  elseif at > now then -- what is later than now is one record of now
    local rank = redis.call('ZCOUNT', KEYS[1], '-inf', string.format('(%.0f', now))
    local again, start, _, same = record(rank)
    start = start or sum
    permits = (sum + permits - start) % ROUND
    at, sum, member = now, start, string.format('%.0f:%.0f', start, permits)
    redis.call('ZADD', KEYS[1], string.format('%.0f', now), member)
    redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
    if again == now and same ~= member then
      redis.call('ZREM', KEYS[1], same)
    end
  end
  lasts = true
end

-- reach returns the rank of the first record that has x permits with those before it. That is
-- mostly one of the oldest, so it looks there first.
local function reach(x)
  local low, high, stride = old, redis.call('ZCARD', KEYS[1]) - 1, 1
  for _ = 1, LOOKS do
    if low >= high then
      break
    end
    local middle = math.min(math.floor((low + high) / 2), low + stride - 1)
    stride = 2 * stride
    local _, before, own = record(middle)
    if before and (before - base) % ROUND + own >= x then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

local allowed, retry, reset = 1, 0, 0
if n < 0 then
  local rest = used - math.min(-n, used)
  if rest == 0 then
    if longer then
      redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. ended, '+inf')
    else
      redis.call('UNLINK', KEYS[1])
    end
    return {1, rate, 0, 0}
  end
  local rank = reach(rest)
  local last, start, _, name = record(rank)
  local left = string.format('%.0f:%.0f', start, rest - (start - base) % ROUND)
  if name ~= left then
    redis.call('ZADD', KEYS[1], string.format('%.0f', last), left)
    redis.call('ZREM', KEYS[1], name)
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', last), '+inf')
  at, used = last, rest
elseif n <= rate - used then
  local known = lasts or longer and sum
  if longer then
    slice = math.max(slice, ttl) -- a thousandth of the time to live
  end
  if known and math.floor(at / slice) == math.floor(now / slice) then
    permits = permits + n
  else
    sum, permits, member = known and (sum + permits) % ROUND or 0, n, nil
  end
  local taken = string.format('%.0f:%.0f', sum, permits)
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), taken)
  if member then
    redis.call('ZREM', KEYS[1], member)
  end
  at, used = now, used + n
else
  allowed, retry = 0, math.ceil(record(reach(used + n - rate)) + interval - now)
end
if old > 0 and not longer then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ended)
end
if used > 0 then
  reset = math.ceil(at + interval - now)
  if ttl < reset / 1000 then -- or there is none
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(reset / 1000) + 1))
  end
end
return {allowed, math.max(0, rate - used), retry, reset}
