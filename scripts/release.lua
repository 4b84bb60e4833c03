-- release.lua: gives permits back. They come out of the newest records that count, the last one
-- touched is shrunk; what is not outstanding is not given back.
--
-- KEYS, ARGV, errors: common.lua
-- ARGV[first]  the permits to give back
-- ARGV[first + 1]  the receipt of this request: a field of the hash that says it was done, so that it is
--            done once however often it is sent. Java passes over fields it does not know.
-- ARGV[5]    the ms since it was first sent, or since the permits were taken; what was taken an interval
--            ago has come back by itself
-- ARGV[receipts..]  those that are not needed any more, and the channel of changed.lua
-- Reply:     {permits given back; 1 if there is more to give back, as one call takes no more than
--            2,000 records}. {0, 0} if all of it was done before, or is not to be done any more

local receipt = ARGV[first + 1]
local fresh = redis.call('HSETNX', KEYS[1], receipt, now) == 1
local before = not fresh and string.match(redis.call('HGET', KEYS[1], receipt), ' (%d+)$') -- it was not all
for i = receipts, #ARGV - 1 do
  redis.call('HDEL', KEYS[1], ARGV[i])
end

local stale = (tonumber(ARGV[5]) or 0) >= interval
local wanted = fresh and known and not stale and tonumber(ARGV[first]) or 0
local given, whole, part = 0, 0, nil -- part: the record to be shrunk
for from = 0, head[1] and wanted > 0 and 1900 or -1, 100 do
  local newest = redis.call('ZREVRANGE', KEYS[3], from, from + 99)
  for i = 1, #newest do
    local n = count(newest[i])
    if given + n > wanted then
      part = given < wanted and newest[i] or nil
      break
    end
    given, whole = given + n, whole + 1
  end
  if whole < from + 100 or given == wanted then
    break
  end
end
local empty = not head[1] or whole == redis.call('ZCARD', KEYS[3])
if empty then
  gone = gone + whole -- last.lua removes them
elseif whole > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[3], -whole, -1)
end
if part then
  put(redis.call('ZSCORE', KEYS[3], part), packed(part, count(part) - wanted + given))
  redis.call('ZREM', KEYS[3], part)
  given = wanted
end
value = empty and rate or math.min(rate, value + given)
local reply = { given, given < wanted and not empty and 1 or 0 }
if reply[2] == 1 then
  redis.call('HSET', KEYS[1], receipt, now .. ' ' .. given)
elseif before then
  reply = { tonumber(before), 1 }
end
