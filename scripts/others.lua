-- others.lua: tells how Go and others share the limiter. Writes nothing.
--
-- KEYS, ARGV: parts/common.lua
-- Reply:   {interval in ms, 0 where there is none; the time of the newest record that Go has not written, 0
--          if there is none; the permits of Go's records; those of the others}, by the newest 200 records
-- Errors:  WRONGTYPE
--
-- What Go writes bears a mark in front of its random bytes (record.go); in the format fI, which has too
-- few of them, it is the bits that no number of Redisson has.

-- include parts/common.lua
local function whole(text)
  local n = tonumber(text) or 0
  return math.abs(n) <= MOST and math.floor(n) or 0
end

local last, go, others = 0, 0, 0
local NEWEST, BIT5, LC0I = 200, 32, 20 -- LC0I: the bytes of such a record
local newest = redis.call('ZREVRANGE', KEYS[3], 0, NEWEST - 1, 'WITHSCORES')
for i = 1, #newest, 2 do
  local member, ours = newest[i], false
  if #member == 8 then
    ours = string.byte(member) == 3 and math.floor(string.byte(member, 4) / BIT5) % 4 == 3
  else
    local from = #member == LC0I and 9 or 2 -- behind the header
    ours = string.sub(member, from, from + 1) == '\210G'
  end
  if ours then
    go = go + count(member)
  else
    others = others + count(member)
    last = last == 0 and whole(newest[i + 1]) or last
  end
end
return { whole(redis.call('HGET', KEYS[1], 'interval')), last, go, others }
