-- repair.lua: brings the records into one format, some of them in each call, and puts the value right.
--
-- KEYS, ARGV, errors: common.lua
-- ARGV[2]  where to go on: 0 at first, then what the last call has answered
-- ARGV[3]  a record of the format, from whose random bytes new ones go on
-- ARGV[7]  what every record of the format begins with; the channel of changed.lua
-- Reply:   {where to go on, 0 at the end; records there are; records rewritten; records dropped; permits
--          by which the value was too high}
--
-- What is in no format that Redisson has had, or holds nothing, is dropped; a time further ahead than an
-- interval is brought back to now. The value is right in the end where up to 10,000 records are left;
-- beyond them it is only kept below what that many records allow.

local scan, fresh = redis.call('ZSCAN', KEYS[3], ARGV[2], 'COUNT', '500'), ARGV[3]
local rewritten, dropped, credit = 0, 0, 0
for i = 1, #scan[2], 2 do
  local member, time = scan[2][i], tonumber(scan[2][i + 1])
  local n, length = count(member), #member
  local readable = n > 0 and (length == 8 or length == string.byte(member) + 5
    or (length == 20 and string.sub(member, 1, 8) == '\8\0\0\0\0\0\0\0'))
  local ahead = not time or time > now + math.max(0, interval)
  local other = ahead or length ~= #ARGV[3] or string.sub(member, 1, #ARGV[7]) ~= ARGV[7]
  local old = time and time <= expired
  if (old or other or not readable) and redis.call('ZREM', KEYS[3], member) == 1 then
    if old or not readable then
      credit = credit + n
      dropped = dropped + (old and 0 or 1)
    else
      put(ahead and string.format('%d', now) or scan[2][i + 1], packed(fresh, n))
      fresh = next_of(fresh)
      rewritten = rewritten + 1
    end
  end
end

local size, believed = redis.call('ZCARD', KEYS[3]), (stored or rate) + back + credit
value = value + credit
if scan[1] == '0' and size <= 10000 then
  local sum, rank = 0, 0
  -- include outstanding.lua
  value = rate - sum
elseif scan[1] == '0' then
  value = math.min(value, rate - size)
end
local reply = { tonumber(scan[1]), size, rewritten, dropped, believed - value }
