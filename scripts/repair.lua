-- repair.lua: rewrites the records in one format and puts the value right.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua
-- ARGV[4]  the time to go on from: 0 at first, then the first number of the last reply
-- ARGV[5]  a record of the format; new records count up from its random bytes
-- ARGV[11] the channel that wakes waiters
-- ARGV[12] the bytes that every record of the format begins with
-- ARGV[13] the most records to handle in one call
-- Reply:   {the time to go on from, 0 if all is done, 1 to begin again; records that are left; records
--          rewritten; records dropped; permits by which the value was too high}
--
-- A record is dropped if it is in no format that Redisson has had, or holds 0 permits. A time further ahead
-- than an interval is brought back to now. If there are more records than one call may handle, a call handles
-- 1,000 of them. It makes one record of those that lie within the same thousandth of an interval, dated by
-- the latest; of the longest interval, while versions with different ones take turns (parts/span.lua).
-- Records that only another version counts stay. At last so few records are left that one call sees all and
-- can tell the value.

local givenRate, lasts = nil, nil -- without a rate there is no limiter; the time to live is always set
-- include parts/common.lua
-- include parts/limiter.lua
local kept = span > interval -- what has expired stays for another version
local size = (head[1] or kept) and redis.call('ZCARD', KEYS[3]) or 0
if dead > 0 and dead < size then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, dead - 1)
  size, gone, dead = size - dead, gone - dead, 0
end
local PART = 1000 -- records; each may cost two commands, so more would take too long
local PARTS = 1000 -- of an interval: permits come back that much later at most
local LC0I = 20 -- the bytes of a record in the format Lc0I
local fresh, part = ARGV[5], {}
local away, step = {}, nil
local few = size <= tonumber(ARGV[13])
if few and size > 0 then
  part = redis.call('ZRANGE', KEYS[3], '0', '-1', 'WITHSCORES')
elseif not few then
  part = redis.call('ZRANGEBYSCORE', KEYS[3], ARGV[4], '+inf', 'WITHSCORES', 'LIMIT', '0', PART)
end
local written, rewritten, dropped, credit, slot = 0, 0, 0, 0, math.max(1, span / PARTS)
local counting, lost, all = 0, 0, 0 -- permits: that count, of records that go, of those that stay

-- The records that become one: their key (which part of the interval), their permits, the time, the first of
-- them. The loop takes one more turn than there are records, to write the last group.
local group = { n = 0 }
for i = 1, #part + 1, 2 do
  local record, text, time = part[i], part[i + 1], tonumber(part[i + 1])
  local n, length = record and count(record) or 0, record and #record or 0
  local over = time and time <= expired
  local old = time and time <= now - span
  local good = n > 0 and not old and (length == 8 or length == string.byte(record) + 5
    or (length == LC0I and string.sub(record, 1, 8) == '\8\0\0\0\0\0\0\0'))
  local changed, key = false, nil
  if good then
    changed = length ~= #ARGV[5] or string.sub(record, 1, #ARGV[12]) ~= ARGV[12]
    if not time or time > now + interval then
      changed, time, text = true, now, string.format('%d', now)
    end
    key = few and i or math.floor(time / slot) * 2 + (over and 1 or 0)
    counting, all = counting + (over and 0 or n), all + n
  elseif record then
    away[#away + 1] = record
    lost, credit = lost + n, credit + (over and kept and 0 or n)
    dropped = dropped + (old and 0 or 1)
  end
  if good and key == group.key and group.n + n <= FULL then
    if not group.changed then
      away[#away + 1] = group.record
      rewritten = rewritten + 1
    end
    group.n, group.time, group.changed, changed = group.n + n, text, true, true
  elseif good or not record then
    if group.changed then
      local member, at = packed(fresh, group.n), group.time
      -- include parts/put.lua
      fresh, written = member, written + 1
    end
    group = { key = key, n = n, time = text, record = record, changed = changed }
  end
  if good and changed then
    away[#away + 1] = record
    rewritten = rewritten + 1
  end
end

local believed = (kept and value or (stored or rate) + back) + credit
local reply = { 0, size + written - #away, rewritten, dropped }
value = (few or reply[2] == 0) and rate - counting or value + credit
total = (few or reply[2] == 0) and all or total and total - lost
if not few and #part == 2 * PART then
  -- Go on from the last time, for more records may have it. If nothing was to be done, go on after it.
  local latest = math.floor(math.min(tonumber(part[#part]) or now, now + interval))
  reply[1] = math.max(2, rewritten + dropped > 0 and latest or latest + 1)
elseif not few then
  reply[1] = 1
end
reply[5] = believed - value
if own and session then -- note for which rate the value is right, or none (parts/limiter.lua)
  local done = string.match(session, '^%d+ %d+ %-?%d+ %d+')
  local seen = (few or reply[2] == 0) and rate or rate + 1
  redis.call('HSET', KEYS[1], ARGV[2], string.format('%s %d', done or '0 0 0 0', seen))
  known = true
end
redis.pcall('PUBLISH', ARGV[11], 'changed')
-- include parts/finish.lua
return reply
