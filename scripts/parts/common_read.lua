-- common_read.lua: reads a limiter and judges a request where nothing needs repair, in a straight line for
-- acquire.lua (common_case.lua) and all.lua. It writes nothing.
--
-- The common case: a rate is set, and a given rate says the same; the request is new; the value is a whole
-- number within the rate, and a PER_CLIENT one is right for it; the oldest record has a whole ms, and no
-- later time than now, or there is none, and the value is the rate. At most SOME records have expired, and
-- either the value is not due for a check (read.lua), or at most LEFT records remain and their sum confirms
-- it. If records have expired, or a caller asks for numbers, the newest record is no later than now either.
-- If the session is older than ten seconds and no record has expired, at most LEFT records confirm the value
-- as well (unseen.lua). The permits are there, or return with the oldest record that counts.
--
-- Before it: kind, amount and given are ARGV[1], ARGV[4] and ARGV[13] of the limiter; asked, a caller asks
-- for numbers; usual, no argument is there that only the general case knows; lone, the request is a single
-- one; at, now and us, the time (common_time.lua). After it:
--   right   the case is the common one
--   wait    nil where the permits are there, otherwise the us until they are
--   f, text, oldest  what was read, for the general case
--   none    a rate is given, and no key of the limiter exists: one command finds that out instead of three
--   rate, interval, keep, own  the configuration
--   all, value  the permits that are asked for, and those that are left
--   gone, back  how many records have expired, and their permits, which value has
--   due     the session does not note a check of the value yet (unseen.lua)
--   first, latest, since  the oldest record that counts; the time of the newest one; that of the oldest one

local MOST, FULL, FEW, FROM, TO = 9007199254740992, 4294967295, 13, 18, 26 -- as in the general case
local LEFT, SOME = 10, 20 -- records to be summed (FEW of read.lua); expired records
local IN = 17 -- as in unseen.lua
local f = redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime', ARGV[2], 'longest')
local none = given ~= '' and f[1] == false and redis.pcall('EXISTS', KEYS[1], KEYS[2], KEYS[3]) == 0
local text, oldest = false, {}
if not none then
  text, oldest = redis.pcall('GET', KEYS[2]), redis.pcall('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')
end
local rate, interval, keep, own = tonumber(f[1]), tonumber(f[2]), tonumber(f[4] or 0), f[3] == '1'
local value, all = tonumber(text), tonumber(amount)
local since = tonumber(oldest[2]) or not oldest.err and value == rate and now
local wait, gone, back, first, latest = nil, 0, 0, oldest, since
local voucher = own and redis.call('HGET', KEYS[1], 'session:' .. KEYS[2]) or '' -- vouch.lua
local right = usual and rate and interval and keep and value and since and kind == f[3] and not f[6]
  and interval > 0 and rate % 1 + interval % 1 + keep % 1 + value % 1 + since % 1 == 0
  and rate <= MOST and interval <= MOST and keep <= MOST and value <= rate
  and (not f[5] or f[5] < ARGV[3])
  and (own and string.match(voucher, '^%d+ %d+ 0 0 (%-?%d+)$') == f[1]
    and string.sub(voucher, FROM, TO) == string.sub(at, 1, 9) or f[3] == '0')
  and (given == '' or string.sub(given, 1, -2) == f[1] .. ' ' .. f[2] .. ' ' .. (f[4] or 0) .. ' ')
if right and since <= now - interval then
  gone = redis.call('ZCOUNT', KEYS[3], '-inf', string.format('%d', now - interval))
  local left, sum = redis.call('ZCARD', KEYS[3]) - gone, 0
  local last = left <= LEFT and '-1' or gone - 1
  local some = gone <= SOME and redis.call('ZRANGE', KEYS[3], '0', last) or {}
  for i = 1, #some do
    local a, b, c, d = string.byte(some[i], -4, -1)
    local n = d and a + b * 256 + c * 65536 + d * 16777216 or 0
    back, sum = i <= gone and back + n or back, i > gone and sum + n or sum
  end
  first = left > 0 and redis.call('ZRANGE', KEYS[3], gone, gone, 'WITHSCORES') or {}
  latest, value = tonumber(first[2]) or left == 0 and 0 or math.huge, value + back
  right = gone <= SOME and latest % 1 == 0 and (left <= LEFT and value + sum == rate
    or left > LEFT and value + left <= rate
      and math.floor(since / interval) == math.floor(latest / interval))
  since = latest
end
if right and first[1] and (asked or gone > 0) then
  latest = tonumber(redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')[2]) or math.huge
end
if right and all > value and all <= rate and lone then
  local a, b, c, d = string.byte(first[1], -4, -1)
  wait = d and a + b * 256 + c * 65536 + d * 16777216 >= all - value
    and math.min(MOST, (since + interval - now) * 1000 - us) or nil
end
local recent = f[5] and string.sub(f[5], FROM, TO) == string.sub(at, 1, 9) -- session.lua
local due = f[5] or now % IN == 0
if recent or gone > 0 or not first[1] then
  due = false
end
if right and due then
  local some = not wait and redis.call('ZCARD', KEYS[3]) <= LEFT and redis.call('ZRANGE', KEYS[3], '0', '-1')
  local sum = some and value or nil
  for i = 1, some and #some or 0 do
    local a, b, c, d = string.byte(some[i], -4, -1)
    sum = d and sum + a + b * 256 + c * 65536 + d * 16777216 or sum
  end
  right = sum == rate
end
right = right and latest <= now and (wait or all <= value and all <= FULL
  and (recent or redis.call('HLEN', KEYS[1]) < FEW))
