-- repair.lua: brings the records into one format and puts the value right.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua
-- ARGV[4]  where to go on: 0 at first, then what the last call has answered
-- ARGV[5]  a record of the format, from whose random bytes new ones go on
-- ARGV[11] the channel that tells those who wait
-- ARGV[12] what every record of the format begins with
-- ARGV[13] the most records to handle at once
-- Reply:   {where to go on, 0 at the end, 1 to begin again; records there are; records rewritten; records
--          dropped; permits by which the value was too high}
--
-- What is in no format that Redisson has had, or holds nothing, is dropped; a time further ahead than an
-- interval is brought back to now. Where there are more records than can be handled at once, a call
-- handles 1,000, and makes one of those of a thousandth of an interval, with the latest of their times;
-- until so few are left that one call sees all, and can tell the value.

-- include parts/limiter.lua
if gone > 0 and head[1] then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, gone - 1)
  gone = 0
end
local PART, LC0I = 1000, 20 -- LC0I: the bytes of such a record
local size, fresh, part = head[1] and redis.call('ZCARD', KEYS[3]) or 0, ARGV[5], {}
local away, step = {}, nil
local few = size <= tonumber(ARGV[13])
if few and size > 0 then
  part = redis.call('ZRANGE', KEYS[3], '0', '-1', 'WITHSCORES')
elseif not few then
  part = redis.call('ZRANGEBYSCORE', KEYS[3], ARGV[4], '+inf', 'WITHSCORES', 'LIMIT', '0', PART)
end
local written, rewritten, dropped, credit, total, slot = 0, 0, 0, 0, 0, math.max(1, interval / 1000)

-- What becomes one record: its key, the permits, the time, the record it begins with. One more turn of the
-- loop writes the last of them.
local group = { n = 0 }
for i = 1, #part + 1, 2 do
  local record, text, time = part[i], part[i + 1], tonumber(part[i + 1])
  local n, length = record and count(record) or 0, record and #record or 0
  local old = time and time <= expired
  local good = n > 0 and not old and (length == 8 or length == string.byte(record) + 5
    or (length == LC0I and string.sub(record, 1, 8) == '\8\0\0\0\0\0\0\0'))
  local changed, key = false, nil
  if good then
    changed = length ~= #ARGV[5] or string.sub(record, 1, #ARGV[12]) ~= ARGV[12]
    if not time or time > now + interval then
      changed, time, text = true, now, string.format('%d', now)
    end
    key = few and i or math.floor(time / slot)
    total = total + n
  elseif record then
    away[#away + 1] = record
    credit = credit + n
    dropped = dropped + (old and 0 or 1)
  end
  if good and key == group.key and group.n + n <= 4294967295 then
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

local believed, reply = (stored or rate) + back + credit, { 0, size + written - #away, rewritten, dropped }
value = (few or reply[2] == 0) and rate - total or value + credit
if not few and #part == 2 * PART then
  -- From the last time on, for there may be more of that; past it, where there was nothing to do.
  local latest = math.floor(math.min(tonumber(part[#part]) or now, now + interval))
  reply[1] = math.max(2, rewritten + dropped > 0 and latest or latest + 1)
elseif not few then
  reply[1] = 1
end
reply[5] = believed - value
if own and session then -- the session knows the rate that the value is right by (parts/limiter.lua)
  local done = string.match(session, '^%d+ %d+ %-?%d+ %d+')
  local seen = (few or reply[2] == 0) and rate or rate + 1
  redis.call('HSET', KEYS[1], ARGV[2], string.format('%s %d', done or '0 0 0 0', seen))
end
redis.pcall('PUBLISH', ARGV[11], 'changed')
-- include parts/finish.lua
