-- repair.lua: rewrites the records in one format and corrects the value.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua
-- ARGV[4]  the time to go on from: 0 at first, then the first number of the last reply
-- ARGV[5]  a record of the format; new records count up from its random bytes
-- ARGV[11] the channel that wakes waiters
-- ARGV[12] the bytes that every record of the format begins with
-- ARGV[13] the most records to handle in one call
-- Reply:   {the time to go on from, 0 if all is done, 1 to begin again; records that are left; records
--          rewritten; records dropped; permits by which the value was too high}
--
-- A record is dropped if no Redisson has written its format, or if it holds 0 permits. A time further ahead
-- than an interval is brought back to now. If there are more records than one call may handle, a call handles
-- 1,000 of them. It joins the records within the same thousandth of an interval into one, dated by the
-- latest; of the longest interval, while versions with different intervals take turns (parts/span.lua).
-- Records that only another version counts stay. Those of reservations and leases are not joined, and keep
-- their names, by which they are settled, if the format is theirs. At last one call sees all that is left and
-- can tell the value.

-- include parts/common.lua
-- include parts/keys.lua
-- include parts/read.lua
-- include parts/put.lua
-- include parts/packed.lua
-- include parts/finish.lua
-- include parts/reserved.lua
local l = newLimiter(hash, text, records, timeNow(ARGV[6]))
l.unseen = false
local err = read(l, ARGV[1], ARGV[2], nil)
if err then
  return err
end
local kept = l.span > l.interval -- expired records stay for another version
local size = (l.head[1] or kept) and l.records('ZCARD') or 0
if l.dead > 0 and l.dead < size then
  l.records('ZREMRANGEBYRANK', 0, l.dead - 1)
  size, l.gone, l.dead = size - l.dead, l.gone - l.dead, 0
end
local PART = 1000 -- records; each may cost two commands, so more would take too long
local PARTS = 1000 -- of an interval: permits come back that much later at most
local LC0I = 20 -- the bytes of a record in the format Lc0I
local fresh, part = ARGV[5], {}
l.away = {}
local few = size <= tonumber(ARGV[13])
if few and size > 0 then
  part = l.records('ZRANGE', '0', '-1', 'WITHSCORES')
elseif not few then
  part = l.records('ZRANGEBYSCORE', ARGV[4], '+inf', 'WITHSCORES', 'LIMIT', '0', PART)
end
local written, rewritten, dropped, credit, slot = 0, 0, 0, 0, math.max(1, l.span / PARTS)
local counting = 0 -- permits that count

-- The records that become one: their key (which part of the interval), their permits, the time, the first of
-- them. The loop takes one more turn than there are records, to write the last group.
local group = { n = 0 }
for i = 1, #part + 1, 2 do
  local record, score, time = part[i], part[i + 1], tonumber(part[i + 1])
  local n, length = record and count(record) or 0, record and #record or 0
  local over = time and time <= l.expired
  local old = time and time <= l.now - l.span
  local good = n > 0 and not old and (length == 8 or length == string.byte(record) + 5
    or (length == LC0I and string.sub(record, 1, 8) == '\8\0\0\0\0\0\0\0'))
  local alike = good and length == #ARGV[5] and string.sub(record, 1, #ARGV[12]) == ARGV[12]
  local named, ahead = alike and (reserved(record) or leased(record)), not time or time > l.now + l.interval
  local changed, key = good and not alike, nil
  if good and ahead then
    changed, time, score = not named, l.now, string.format('%d', l.now)
  end
  if named and ahead then
    l.records('ZADD', score, record)
    rewritten = rewritten + 1
  end
  if good then
    key = few and i or math.floor(time / slot) * 2 + (over and 1 or 0)
    counting = counting + (over and 0 or n)
  elseif record then
    l.away[#l.away + 1] = record
    credit = credit + (over and kept and 0 or n)
    dropped = dropped + (old and 0 or 1)
  end
  if good and not named and key == group.key and group.n + n <= FULL then
    if not group.changed then
      l.away[#l.away + 1] = group.record
      rewritten = rewritten + 1
    end
    group.n, group.time, group.changed, changed = group.n + n, score, true, true
  elseif good and not named or not record then
    if group.changed then
      fresh, written = put(l, group.time, packed(fresh, group.n)), written + 1
    end
    group = { key = key, n = n, time = score, record = record, changed = changed }
  end
  if good and changed then
    l.away[#l.away + 1] = record
    rewritten = rewritten + 1
  end
end

local believed = (kept and l.value or (l.stored or l.rate) + l.back) + credit
local reply = { 0, size + written - #l.away, rewritten, dropped }
l.value = (few or reply[2] == 0) and l.rate - counting or l.value + credit
if not few and #part == 2 * PART then
  -- Go on from the last time, for more records may have it. If nothing was to be done, go on after it.
  local latest = math.floor(math.min(tonumber(part[#part]) or l.now, l.now + l.interval))
  reply[1] = math.max(2, rewritten + dropped > 0 and latest or latest + 1)
elseif not few then
  reply[1] = 1
end
reply[5] = believed - l.value
l.vouched, l.guessed = false, not (few or reply[2] == 0)
redis.pcall('PUBLISH', ARGV[11], 'changed')
finish(l, nil)
return reply
