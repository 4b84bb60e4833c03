-- repair.lua: brings the records into one format and puts the value right.
--
-- KEYS, ARGV, errors: common.lua
-- ARGV[2]  where to go on: 0 at first, then what the last call has answered
-- ARGV[3]  a record of the format, from whose random bytes new ones go on
-- ARGV[7]  what every record of the format begins with
-- ARGV[8]  the most records to handle at once; the channel of changed.lua
-- Reply:   {where to go on, 0 at the end, 1 to begin again; records there are; records rewritten; records
--          dropped; permits by which the value was too high}
--
-- What is in no format that Redisson has had, or holds nothing, is dropped; a time further ahead than an
-- interval is brought back to now. Where there are more records than can be handled at once, a call
-- handles 1,000, and makes one of those of a thousandth of an interval, with the latest of their times;
-- until so few are left that one call sees all, and can tell the value. (A request of ours that is under
-- way then, and whose reply is lost, may find its record gone and be charged again.)

local size, fresh, part = head[1] and redis.call('ZCARD', KEYS[3]) or 0, ARGV[3], {}
away = {}
local few = size <= tonumber(ARGV[8])
if few and size > 0 then
  part = redis.call('ZRANGE', KEYS[3], '0', '-1', 'WITHSCORES')
elseif not few then
  part = redis.call('ZRANGEBYSCORE', KEYS[3], ARGV[2], '+inf', 'WITHSCORES', 'LIMIT', '0', '1000')
end
local written, rewritten, dropped, credit, total, group, slot = 0, 0, 0, 0, 0, { n = 0 }, math.max(1, interval / 1000)

local function write(g)
  if g.changed then
    put(g.time, packed(fresh, g.n))
    fresh, written = next_of(fresh), written + 1
  end
end

for i = 1, #part, 2 do
  local member, text, time = part[i], part[i + 1], tonumber(part[i + 1])
  local n, length = count(member), #member
  local old = time and time <= expired
  if n > 0 and not old and (length == 8 or length == string.byte(member) + 5
    or (length == 20 and string.sub(member, 1, 8) == '\8\0\0\0\0\0\0\0')) then
    local changed = length ~= #ARGV[3] or string.sub(member, 1, #ARGV[7]) ~= ARGV[7]
    if not time or time > now + interval then
      changed, time, text = true, now, string.format('%d', now)
    end
    local key = few and i or math.floor(time / slot)
    if key == group.key and group.n + n <= 4294967295 then
      if not group.changed then
        away[#away + 1] = group.member
        rewritten = rewritten + 1
      end
      group.n, group.time, group.changed, changed = group.n + n, text, true, true
    else
      write(group)
      group = { key = key, n = n, time = text, member = member, changed = changed }
    end
    if changed then
      away[#away + 1] = member
      rewritten = rewritten + 1
    end
    total = total + n
  else
    away[#away + 1] = member
    credit = credit + n
    dropped = dropped + (old and 0 or 1)
  end
end
write(group)

local believed, reply = (stored or rate) + back + credit, { 0, size + written - #away, rewritten, dropped }
value = (few or reply[2] == 0) and rate - total or value + credit
if not few and #part == 2000 then
  -- From the last time on, for there may be more of that; past it, where there was nothing to do.
  local last = math.floor(math.min(tonumber(part[2000]) or now, now + interval))
  reply[1] = math.max(2, rewritten + dropped > 0 and last or last + 1)
elseif not few then
  reply[1] = 1
end
reply[5] = believed - value
