-- log.lua: takes permits of a sliding log, or gives them back.
--
-- KEYS[1]  the records, a sorted set by time, in us. A member is "SUM:PERMITS": the sum of the
--          permits of all earlier records, and its own permits
-- ARGV[1]  the permits, negative if they are given back, 0 to look
-- ARGV[2]  the rate
-- ARGV[3]  the interval, in us
-- ARGV[4]  the slice of time whose grants are one record, in us
-- ARGV[5]  when the permits to give back were taken, in us since 1970; none: the newest permits. Where
--          permits are taken, 1 takes them whatever is left
-- Reply:   the permits left, below 0 a debt; when all are back, in us; the time, in us since 1970, 0 if
--          nothing was taken; when the permits are back, in us

local MOST, ROUND = 2 ^ 40, 2 ^ 48 -- the most permits of a limit; sums start over at ROUND
local LOOKS = 100 -- more than any set needs
local MANY = 30000 -- records; a set has fewer
local BESIDE = 1000 -- records on one side of a changed record

local n, rate, interval, slice = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local look = n == 0
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ended = string.format('%.0f', now - interval) -- records up to then have ended
-- The key lives longer than this interval if other limiters have a longer one, as before a change
-- of the limit. Their records stay, and new records are fewer, to bound their number.
local ttl = redis.call('PTTL', KEYS[1])
local longer = ttl > math.ceil(interval / 1000) + 1

-- parse returns the sum before a record, and its permits. The key may hold anything: unreadable
-- records have no sum.
local function parse(member)
  local sum, permits = string.match(member, '^(%d+):(%d+)$')
  sum, permits = tonumber(sum), tonumber(permits)
  if not sum or sum >= ROUND or permits < 1 or permits > MOST then
    return nil
  end
  return sum, permits
end

-- record returns the time of a record, the sum before it, its permits, and the member.
local function record(rank)
  local found = redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')
  if not found[1] then
    return nil
  end
  local sum, permits = parse(found[1])
  return tonumber(found[2]) or math.huge, sum, permits, found[1]
end

-- Records from rank old on count. The last of them is at, sum, permits, member.
local at, sum, permits, member = record(-1)
local since, base = record(0)
local old, used, lasts = 0, 0, false
if at and since <= now - interval then
  old = redis.call('ZCOUNT', KEYS[1], '-inf', ended)
  since, base = record(old)
end
if at and at > now then -- the clock was set back: the intervals of other limiters are unknown
  ttl, longer = -1, false
end
local many = redis.call('ZCARD', KEYS[1]) > MANY
if many or since and since > now - interval then
  local known = sum and base and not many
  used = known and (sum + permits - base) % ROUND
  if look and (not used or used < permits) then
    return {0, interval, 0, interval}
  elseif not used or used < permits then -- unreadable data count as the rate, taken now
    redis.call('UNLINK', KEYS[1])
    ttl, longer = -1, false
    at, base, sum, permits, used, old = now, 0, 0, rate, rate, 0
    member = string.format('0:%.0f', rate)
    redis.call('ZADD', KEYS[1], string.format('%.0f', now), member)
  elseif look then
    at = math.min(at, now)
  elseif at > now then -- later records become one record of now
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

-- reach returns the rank of the first record that has x permits together with those before it. It
-- looks at the oldest records first, as it is mostly one of them.
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

-- withdraw takes permits out of the record of a time, and returns how many. It writes the records
-- of one side again, with other sums, and gives up if both sides have very many.
local function withdraw(taken, wanted)
  local own = redis.call('ZCOUNT', KEYS[1], '-inf', string.format('(%.0f', taken))
  local first, last = longer and 0 or old, redis.call('ZCARD', KEYS[1]) - 1
  local earlier = own - first < last - own
  if earlier then
    last = own
  else
    first = own
  end
  local at_time, _, out = record(own)
  local over = not out or at_time - taken >= (longer and math.max(slice, ttl) or slice)
  if over or own < old or taken <= now - interval or last - first > BESIDE then
    return 0
  end
  local back = math.min(wanted, out)
  local found, there = redis.call('ZRANGE', KEYS[1], first, last, 'WITHSCORES'), {}
  for i = 1, #found, 2 do
    local before, count = parse(found[i])
    if not before then
      return 0
    end
    local rank = first + (i - 1) / 2
    if rank == own then
      count = count - back
    end
    if earlier then
      before = (before + back) % ROUND
    elseif rank > own then
      before = (before - back) % ROUND
    end
    found[i] = {found[i], string.format('%.0f:%.0f', before, count)}
    there[found[i][2]] = count > 0
  end
  for i = 1, #found, 2 do -- add first, so that the key keeps its time to live
    if there[found[i][2]] then
      redis.call('ZADD', KEYS[1], found[i + 1], found[i][2])
    end
  end
  for i = 1, #found, 2 do
    if not there[found[i][1]] then
      redis.call('ZREM', KEYS[1], found[i][1])
    end
  end
  return back
end

local stamp = tonumber(ARGV[5])
local taken, retry, reset = now, 0, 0
local charge = n > 0 and stamp
if charge then
  n = math.min(n, MOST - used)
end
if n < 0 and stamp then
  used = used - withdraw(stamp, -n)
  at = record(-1) or now
elseif n < 0 then
  local rest = used - math.min(-n, used)
  if rest == 0 then
    if longer then
      redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. ended, '+inf')
    else
      redis.call('UNLINK', KEYS[1])
    end
    return {rate, 0, 0}
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
elseif n > 0 and (charge or n <= rate - used) then
  local known = lasts or longer and sum
  if longer then
    slice = math.max(slice, ttl) -- a thousandth of the time to live
  end
  if known and math.floor(at / slice) == math.floor(now / slice) then
    permits = permits + n
  else
    sum, permits, member = known and (sum + permits) % ROUND or 0, n, nil
  end
  local name = string.format('%.0f:%.0f', sum, permits)
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), name)
  if member then
    redis.call('ZREM', KEYS[1], member)
  end
  at, used = now, used + n
elseif n > 0 or look and used >= rate then
  local first = record(reach(used + math.max(n, 1) - rate))
  taken, retry = 0, math.ceil(math.min(first, now) + interval - now)
end
if old > 0 and not longer and not look then
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ended)
end
if used > 0 then
  reset = math.ceil(at + interval - now)
  if ttl < reset / 1000 and not look then -- or there is none
    redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(reset / 1000) + 1))
  end
end
return {rate - used, reset, taken, retry}
