-- others.lua: tells whether clients other than Go take permits. Writes nothing.
--
-- KEYS, ARGV: common.lua
-- Reply:   {interval in ms, 0 where there is none; the time of the newest record that Go has not written,
--          among the newest 100, 0 if there is none}
-- Errors:  WRONGTYPE
--
-- What Go writes bears a mark in front of its random bytes (record.go); in the format fI, which has too
-- few of them, it is the bits that no number of Redisson has.

local function whole(text)
  local n = tonumber(text) or 0
  return math.abs(n) <= 9007199254740992 and math.floor(n) or 0
end

local found = { whole(redis.call('HGET', KEYS[1], 'interval')), 0 }
local newest = redis.call('ZREVRANGE', KEYS[3], 0, 99, 'WITHSCORES')
for i = 1, #newest, 2 do
  local member, go = newest[i], false
  if #member == 8 then
    go = string.byte(member) == 3 and math.floor(string.byte(member, 4) / 32) % 4 == 3
  else
    local from = #member == 20 and 9 or 2
    go = string.sub(member, from, from + 1) == '\210G'
  end
  if not go then
    found[2] = whole(newest[i + 1])
    break
  end
end
return found
