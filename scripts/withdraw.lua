-- withdraw.lua: takes back an acquire whose caller does not know its answer.
--
-- KEYS, ARGV, errors: common.lua; ARGV[5] is 1
-- ARGV[2]  the permits of that acquire
-- ARGV[3]  its records, as in acquire.lua
-- Reply:   the permits that were taken back

local given = 0
for i = 1, #found do
  redis.call('ZREM', KEYS[3], found[i])
  given = given + count(found[i])
end
value = redis.call('EXISTS', KEYS[3]) == 0 and rate or math.min(rate, value + given)
local reply = given
