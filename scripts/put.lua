-- put.lua: stands behind pack.lua in the scripts that write a record which may be there already. An
-- acquire that is known by its records needs none of it, and goes without.

-- A record with other random bytes, the next ones of 2^24.
local function next_of(member)
  local a, b, c = string.byte(member, -7, -5)
  local r = a + b * 256 + c * 65536 + 1
  return string.sub(member, 1, -8)
    .. string.char(r % 256, math.floor(r / 256) % 256, math.floor(r / 65536) % 256) .. string.sub(member, -4)
end

-- Adds a record, or one like it where there is one that is the same: chance is not enough where few
-- bytes are left to it. What is no record becomes one. There are 2^24 of them, far more than records
-- of one kind in any limiter.
local function put(time, member)
  for _ = 1, 16777216 do
    if redis.call('ZADD', KEYS[3], 'NX', time, member) == 1 then
      break
    end
    member = next_of(string.rep('\3', 8 - #member) .. member)
  end
end
