-- release.lua: gives permits back. They come out of the newest records that count, the last one
-- touched is shrunk; what is not outstanding is not given back.
--
-- KEYS, ARGV, errors: common.lua
-- ARGV[2]    the permits to give back
-- ARGV[3]    the receipt of this request: a field of the hash that says it was done, so that it is
--            done once however often it is sent. Java passes over fields it does not know.
-- ARGV[7..]  receipts that are not needed any more
-- Reply:     the permits given back; 0 also when it was done before

local fresh = redis.call('HSETNX', KEYS[1], ARGV[3], now) == 1
for i = 7, #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[i])
end

-- Receipts of clients that have gone are swept out when there are many, those older than a minute.
if redis.call('HLEN', KEYS[1]) > 68 then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 9) == 'released:' and (tonumber(all[i + 1]) or 0) < now - 60000 then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
end

local function shrunk(member, n)
  return string.sub(member, 1, -5)
    .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256, math.floor(n / 16777216))
end

if gone > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', bound)
  gone = 0
end
local wanted = fresh and tonumber(ARGV[2]) or 0
local given = 0
while given < wanted do
  local newest = redis.call('ZREVRANGE', KEYS[3], 0, 63, 'WITHSCORES')
  if not newest[1] then
    break
  end
  for i = 1, #newest, 2 do
    local held, left = count(newest[i]), wanted - given
    redis.call('ZREM', KEYS[3], newest[i])
    if held > left then
      redis.call('ZADD', KEYS[3], newest[i + 1], shrunk(newest[i], held - left))
    end
    given = given + math.min(held, left)
    if given == wanted then
      break
    end
  end
end
value = redis.call('EXISTS', KEYS[3]) == 0 and rate or math.min(rate, value + given)
local reply = given
