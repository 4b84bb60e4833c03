-- pack.lua: stands in front of the scripts that write records of their own making.

-- A record with another number of permits.
local function packed(member, n)
  return string.sub(member, 1, -5)
    .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256, math.floor(n / 16777216))
end

-- A record with other random bytes, the next ones of 2^24.
local function next_of(member)
  local a, b, c = string.byte(member, -7, -5)
  local r = a + b * 256 + c * 65536 + 1
  return string.sub(member, 1, -8)
    .. string.char(r % 256, math.floor(r / 256) % 256, math.floor(r / 65536) % 256) .. string.sub(member, -4)
end

-- Adds a record, or one like it where there is one that is the same: chance is not enough where few
-- bytes are left to it. What is no record becomes one.
local function put(time, member)
  while redis.call('ZADD', KEYS[3], 'NX', time, member) == 0 do
    member = next_of(string.rep('\3', 8 - #member) .. member)
  end
end
