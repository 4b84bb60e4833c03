-- put.lua: adds a record (member), or one like it where there is one that is the same: it goes through
-- the next ones of 2^24 random bytes, far more than there are records of one kind in any limiter. What is
-- no record becomes one.
--
-- in:       member, at (the score)
-- out:      none
-- changes:  member
-- writes:   yes
-- ends the script: no

for _ = 1, 16777216 do
  if redis.call('ZADD', KEYS[3], 'NX', at, member) == 1 then
    break
  end
  member = string.rep('\3', 8 - #member) .. member
  local a, b, c = string.byte(member, -7, -5)
  local r = a + b * 256 + c * 65536 + 1
  member = string.sub(member, 1, -8)
    .. string.char(r % 256, math.floor(r / 256) % 256, math.floor(r / 65536) % 256) .. string.sub(member, -4)
end
