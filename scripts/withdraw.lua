-- withdraw.lua: takes back an acquire whose caller does not know its answer.
--
-- KEYS, ARGV, errors: common.lua
-- ARGV[2]  the permits of that acquire
-- ARGV[3]  its records, as in acquire.lua
-- Reply:   the permits that were taken back

local members, given = {}, 0
mine(function(member)
  members[#members + 1] = member
end)
for i = 1, #members do
  redis.call('ZREM', KEYS[3], members[i])
  given = given + count(members[i])
end
value = redis.call('EXISTS', KEYS[3]) == 0 and rate or math.min(rate, value + given)
local reply = given
