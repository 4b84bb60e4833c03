-- heal.lua: makes a limiter plain (parts/plain.lua), without judging and without records of its own.
--
-- KEYS, ARGV[1], ARGV[2], ARGV[6]: acquire.lua
-- ARGV[4]  how many records were joined already, from the newest on: 0 at first, -1 if all were
-- ARGV[5]  the ms within which records are joined; empty at first
-- ARGV[10] the given rate of the call (parts/plain.lua), which counts where none is set; missing or empty for
--          none
-- Reply:   {1 to send the call again, 0 if all is done; what ARGV[4] and ARGV[5] are to be then; permits by
--          which the value was wrong}
-- Errors:  NOTINIT  rate, interval or type is not set
--          BADFIELD a field of the hash is no integer up to 2^53: its name and what it holds
--          BADKEY   a key is of the wrong kind: its number, and the kind it should have. Another error of
--                   Redis, such as a missing right, is replied as it is
--          OTHERTYPE the limiter has the other type: send the script again with the keys of that type
--
-- It removes expired records, dates those of the future back, and sums the value. If more than LIVE records
-- are left, it joins those of Java, and those of Go, that lie within a thousandth of an interval, and dates
-- them by the latest: their permits come back up to that much later, never earlier. A call joins up to PAGE
-- records, and the last call sums the rest. Records of reservations and leases are settled by their names,
-- and stay.

-- include parts/common_time.lua
local LIVE, MANY, DEAD, PAGE, SLICES, ZREM = 2000, 4000, 1000, 300, 1000, 100
local FULL = 4294967295 -- the permits of a record: it has four bytes for them
local behind, slice, timed = tonumber(ARGV[4]), tonumber(ARGV[5]), at ~= ARGV[6]
-- include parts/count.lua
if behind <= 0 then
  local kind, given, member = ARGV[1], ARGV[10] or '', 1
  local replaced = string.sub(given, -1) == '1'
  -- include parts/errors.lua
  if given ~= '' and not unread then -- what is set stays until the call replaces it
    given = string.sub(given, 1, -2) .. '0'
  end
  -- include parts/config.lua
  local size, dead = redis.call('ZCARD', KEYS[3]), 0
  local gone, kept = size, span > interval
  if interval > 0 then
    gone = redis.call('ZCOUNT', KEYS[3], '-inf', string.format('%d', now - interval))
  end
  dead = kept and redis.call('ZCOUNT', KEYS[3], '-inf', string.format('%d', now - span)) or gone
  local live, again, all = size - gone, dead > DEAD and dead < size, dead > DEAD and dead == size
  if timed and live > 0 then
    -- include parts/ahead_of.lua
    local BROUGHT, NEAR = 250, 100 -- records; ms, less than what ahead_of.lua allows
    local changed, soon = false, string.format('(%d', now + NEAR)
    local far = redis.call('ZREVRANGEBYSCORE', KEYS[3], '+inf', soon, 'WITHSCORES', 'LIMIT', '0', BROUGHT)
    for i = 1, #far, 2 do
      if tooFar(far[i], tonumber(far[i + 1]) or math.huge) then
        redis.call('ZADD', KEYS[3], 'XX', at, far[i])
        changed = true
      end
    end
    again = again or changed and #far == 2 * BROUGHT
  end
  local joins, drift = behind == 0 and size - dead > LIVE, 0
  if set then -- no rate is set yet: the call sums the value
    if dead > 0 and not all then
      redis.call('ZREMRANGEBYRANK', KEYS[3], '0', math.min(dead, DEAD) - 1)
    end
  else
    local believed, sum, back, from = value, 0, 0, gone <= DEAD and 0 or gone
    local counts = not joins and live <= MANY -- otherwise only what has expired
    local some = {}
    if counts and size > 0 or from < gone then
      some = redis.call('ZRANGE', KEYS[3], from, counts and '-1' or gone - 1)
    end
    for i = 1, #some do
      if from + i <= gone then
        back = back + count(some[i])
      else
        sum = sum + count(some[i])
      end
    end
    if counts then
      value = rate - sum
      drift = believed and gone <= DEAD and interval > 0 and value - believed - back or 0
    elseif value and value <= rate then -- until all can be summed: a record holds a permit or more
      value, vouched = math.min(value + back, rate - live), true
    else -- nothing is left; Go does not trust this value, and heals again if no call completes the work
      value, vouched = math.min(0, rate - live), true
      if joins then
        stored = false
      end
    end
    local taken, took, lease, entry, recent = 0, nil, 0, nil, true
    local ttl = keep <= 0 and redis.call('PTTL', KEYS[1]) or -1
    dead = all and 0 or math.min(dead, DEAD)
    -- include parts/write.lua
  end
  if all then
    redis.call('UNLINK', KEYS[3]) -- another thread of Redis frees them
  end
  if again or not joins then
    return { again and 1 or 0, behind, 0, drift }
  end
  slice = math.max(1, math.floor(span / SLICES))
end

-- include parts/reserved.lua
-- include parts/packed.lua
-- include parts/add.lua
-- include parts/go.lua
local size = redis.call('ZCARD', KEYS[3])
local last = size - behind - 1
local page = {}
if last >= 0 then
  page = redis.call('ZRANGE', KEYS[3], math.max(0, last - PAGE + 1), last, 'WITHSCORES')
end
local groups, away = { [true] = {}, [false] = {} }, {}
local function join(group)
  if group.joined then
    add(group.time, packed(group.record, group.n))
    away[#away + 1] = group.record
  end
end
for i = #page - 1, 1, -2 do
  local record, time = page[i], page[i + 1]
  if not (reserved(record) or leased(record)) then
    local go, key, n = ofGo(record), math.floor((tonumber(time) or 0) / slice), count(record)
    local group = groups[go]
    if group.key == key and group.n + n <= FULL then
      group.n, group.joined = group.n + n, true
      away[#away + 1] = record
    else
      join(group)
      groups[go] = { key = key, n = n, time = time, record = record, joined = false }
    end
  end
end
join(groups[true])
join(groups[false])
for i = 1, #away, ZREM do -- unpack puts them all on the stack of Lua, which is bounded
  redis.call('ZREM', KEYS[3], unpack(away, i, math.min(i + ZREM - 1, #away)))
end
local left = size - redis.call('ZCARD', KEYS[3]) -- the next page begins with the last one of each kind
return { 1, last < PAGE and -1 or math.max(1, behind + PAGE - left - 2), slice, 0 }
