-- withdraw.lua: takes back an acquire whose caller does not know its answer.
--
-- KEYS, ARGV[1..4], errors: common.lua
-- ARGV[5..] the records of that acquire
-- Reply:    the permits that were taken back

local given = 0
for i = 5, #ARGV do
  local time = redis.call('ZSCORE', KEYS[3], ARGV[i])
  if time and tonumber(time) > expired then
    redis.call('ZREM', KEYS[3], ARGV[i])
    given = given + count(ARGV[i])
  end
end
value = math.min(rate, value + given)
local reply = given
