-- withdraw.lua: takes back an acquire whose caller does not know its answer.
--
-- KEYS, ARGV, errors: common.lua
-- ARGV[2]  the permits of that acquire
-- ARGV[3]  its records, as in acquire.lua
-- Reply:   the permits that were taken back

local given = 0
for i = 1, #ARGV[3], 21 do
  local record = string.sub(ARGV[3], i, i + 20)
  local time = redis.call('ZSCORE', KEYS[3], record)
  if time and tonumber(time) > expired then
    redis.call('ZREM', KEYS[3], record)
    given = given + count(record)
  end
end
value = math.min(rate, value + given)
local reply = given
