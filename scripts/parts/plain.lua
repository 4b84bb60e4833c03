-- plain.lua: reads a limiter and finds out what is left, in a straight line. It repairs nothing: if
-- something must be repaired first, the script replies the number of the limiter, having written nothing
-- but the hint of checked.lua, and the Client calls heal.lua and sends the call again.
--
-- Plain is a limiter whose keys are of their kinds, and whose fields are integers up to 2^53; whose oldest
-- record is not too far ahead; of whose records no more than LIVE / 2 have expired; and whose value can be
-- believed, or put right by the sum of at most LIVE records. The limiters of one call share these numbers.
-- The value is summed in three cases:
--   1. It cannot be right: it is missing, or above the rate; or some records have expired, and it leaves
--      less than a permit to each of the others.
--   2. It may be that of another rate or interval: it is an own value without a voucher (write.lua), the
--      hash is new, or versions with different intervals take turns.
--   3. Records have expired, and few are left, or the oldest one and the oldest that counts lie in different
--      pieces of time, as long as an interval each. That is so once an interval, whichever client calls:
--      Java may leave the value wrong (by a release, or a request that it sent twice), and that lasts no
--      longer, unless Java removes the very records that would show it.
-- A Java whose clock is ahead removes records before Go finds them expired. So where none has expired, the
-- first request of a Client in ten seconds looks (one without a session in one ms of IN): a few records
-- confirm the value, otherwise it is summed, once in ten seconds, or in an interval if that is longer
-- (checked.lua). Until then permits that Java has released can be used.
--
-- A given rate is what the call sets where no rate is set: `rate interval keep 0`, the times in ms. One
-- that ends in 1 also replaces another rate, interval or keep alive. The records stay, and their permits
-- count against the new rate, even if only the hash was gone. The type is OVERALL where none is set, and
-- stays otherwise. While versions with different intervals take turns, each counts the records of its own
-- interval, and none removes records that another one still counts: the field `longest` holds the longest
-- interval that was in use lately, and until when records and keys stay for it. Older versions write two
-- more numbers.
--
-- Before it: kind and given are the type and the given rate; healed, heal.lua was called for this call;
-- asked, a caller asks for numbers; member, the number of the limiter; summed, the records that were read
-- for the limiters before it; at, now and us (common_time.lua), and timed, if they are the server's. A script
-- that only reads calls errors.lua first; healed is true, and member nil. Then nothing is written, and what
-- is left is what heal.lua would leave, unless more than MANY records must be summed: then it is that of the
-- value string, and at most the rate less a permit for each record.
-- After it:
--   rate, interval, keep, own  the configuration; set, it is to be written; replaces, in place of another one
--   endless         with it the hash loses its time to live: it has that of a keep alive, or of no rate
--   span, longest   the longest interval in use; what the field is to hold, '' if it must go, nil if it stays
--   stored, value   the value string, nil if it is no integer; the permits that are left
--   drift           permits by which the value was wrong: above 0 if it was too small
--   gone, dead      how many records have expired, from the oldest on; how many of these are to be removed
--   first, since    the oldest record that counts, empty if there is none; its time, which then means nothing
--   f, there        the fields, in the order of config.lua; a rate was set before
--   recent, look    the session is of these ten seconds; it must note that the value was looked at
--   vouched         the value is not an own one, or has a voucher of these ten seconds

-- include parts/config.lua
-- include parts/count.lua
-- include parts/ahead_of.lua
local LIVE, MANY, FEW, IN, DIE = 2000, 4000, 10, 17, 250
local room = healed and MANY or math.max(0, LIVE + FEW - summed) -- heal.lua leaves reservations
local believed, sums = value, not value or value > rate or value < -MOST or not member and value < 1

local since, first, gone, dead, live, back, look = tonumber(oldest[2]), oldest, 0, 0, nil, 0, false
if oldest[1] and not since then -- not every Lua reads inf as a number
  since = string.sub(oldest[2], 1, 1) == '-' and -math.huge or math.huge
end
local recent = f[5] and string.sub(f[5], FROM, TO) == string.sub(at, 1, 9)
if interval <= 0 then -- Java accepts any interval: permits are back at once
  gone = oldest[1] and redis.call('ZCARD', KEYS[3]) or 0
  dead, live, first = gone, 0, {}
elseif since and since <= now - interval then
  gone = redis.call('ZCOUNT', KEYS[3], '-inf', string.format('%d', now - interval))
  live = redis.call('ZCARD', KEYS[3]) - gone
  dead = span == interval and gone or redis.call('ZCOUNT', KEYS[3], '-inf', string.format('%d', now - span))
  first = live > 0 and redis.call('ZRANGE', KEYS[3], gone, gone, 'WITHSCORES') or {}
  summed = summed + 2 * dead -- they are removed as well
  local piece = math.floor(since / interval)
  since = tonumber(first[2]) or math.huge
  sums = sums or live <= FEW or math.floor(since / interval) ~= piece
elseif since and not recent and not sums and not healed then
  look = f[5] or now % IN == 0
end
if dead > room / 2 then
  if member then
    return { member }
  end
  believed, sums = nil, true
end

if first[1] and since > now then
  local far
  far, since = tooFar(first[1], since)
  if far and timed and not healed then
    return { member }
  end
end

local sum = 0
if look then
  local some = redis.call('ZRANGE', KEYS[3], '0', FEW)
  for _, record in ipairs(some) do
    sum = sum + count(record)
  end
  if #some > FEW or rate - sum ~= value then
    -- include parts/checked.lua
    sums = due
  end
  sum = 0
end
if sums then
  live = live or redis.call('ZCARD', KEYS[3])
  if live > room and not healed then
    return { member }
  end
  sums = live <= room
end
if gone > 0 and believed then
  for _, record in ipairs(redis.call('ZRANGE', KEYS[3], '0', gone - 1)) do
    back = back + count(record)
  end
  sums = sums or live <= room and value + back + live > rate -- a record holds a permit or more
end
if sums then
  summed = summed + live
  for _, record in ipairs(redis.call('ZRANGE', KEYS[3], gone, '-1')) do
    sum = sum + count(record)
  end
end
if not first[1] then
  value = rate
elseif sums then
  value = rate - sum
else
  value = (value or stored or 0) + back
  if gone > 0 and value + live > rate and not healed then
    return { member }
  elseif healed and live then
    value = math.min(value, rate - live)
  end
end
local drift = believed and value ~= believed and interval > 0 and value - believed - back or 0
local looks = first[1] and (timed and us or now) % DIE == 0 and not healed
if looks and redis.call('ZCARD', KEYS[3]) > LIVE + gone then
  return { member }
end
