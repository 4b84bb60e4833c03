-- others.lua: returns how Go and other clients share the limiter, by its newest 200 records. Writes nothing.
--
-- KEYS, ARGV: parts/common.lua
-- Reply:   {interval in ms, 0 if there is none; the time of the newest record that Go did not write, 0 if
--          there is none; the permits in the records of Go; the permits in the other records}
-- Errors:  WRONGTYPE
--
-- The random bytes of a record of Go begin with a mark (internal/wire/record.go). A record of 8 bytes has no
-- room for it; there two bits are set that are never set in the numbers that Redisson writes.

-- include parts/common.lua
local function whole(text)
  local n = tonumber(text) or 0
  return math.abs(n) <= MOST and math.floor(n) or 0
end

local last, go, others = 0, 0, 0
local NEWEST = 200 -- records: enough to see who takes which share, few enough to read in every such call
local BIT5 = 32 -- the number is shifted by five bits: the two above them are the mark
local LC0I = 20 -- the bytes of a record in the format Lc0I
local newest = redis.call('ZREVRANGE', KEYS[3], 0, NEWEST - 1, 'WITHSCORES')
for i = 1, #newest, 2 do
  local member, ours = newest[i], false
  if #member == 8 then
    ours = string.byte(member) == 3 and math.floor(string.byte(member, 4) / BIT5) % 4 == 3
  else
    local from = #member == LC0I and 9 or 2 -- after the header
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
