-- config.lua: reads the hash and the value of a limiter, in a straight line; plain.lua explains the names.
-- If something cannot be read, the script replies the number of the limiter: heal.lua says what it is.

local MOST, FROM, TO = 9007199254740992, 18, 26 -- 2^53; the time in a session, without its last four digits
local f = redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime', ARGV[2], 'longest')
local text, oldest = redis.pcall('GET', KEYS[2]), redis.pcall('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')
if f.err or oldest.err or type(text) == 'table' then
  return { member }
end

local there, set, endless, was, lasted = f[1] and f[2] and f[3], given ~= '', false, nil, 0
if there and set then
  set = given ~= f[1] .. ' ' .. f[2] .. ' ' .. (f[4] or 0) .. ' 1' and string.sub(given, -1) == '1'
end
local replaces = there and set
if set then
  local r, i, k = string.match(given, '^(%d+) (%d+) (%d+) ')
  endless = k == '0' and (not there or (tonumber(f[4] or 0) or 0) > 0)
  was, lasted = there and tonumber(f[1]), there and tonumber(f[2]) or 0
  f[1], f[2], f[3], f[4] = r, i, there and f[3] or '0', k
elseif not there then
  return redis.error_reply('NOTINIT no rate is set')
end
local rate, interval, keep, own = tonumber(f[1]), tonumber(f[2]), tonumber(f[4] or 0), f[3] == '1'
if not rate or not interval or not keep or rate % 1 + interval % 1 + keep % 1 ~= 0
  or rate > MOST or interval > MOST or keep > MOST or rate < -MOST or interval < -MOST then
  return { member }
elseif kind ~= (own and '1' or '0') then
  return redis.error_reply('OTHERTYPE ' .. (own and '1' or '0'))
end

local span, longest, vouched = interval, nil, true
local afresh = set and (own or not was or was % 1 ~= 0 or lasted ~= interval) -- nan as well
if f[6] or lasted > interval then
  local HOUR = 3600000 -- ms; bounds how long the records of an unused version are kept
  local other, till = string.match(f[6] or '', '^(%d+) (%d+) ?%d* ?%-?%d*$')
  other, till = tonumber(other or 0) or 0, tonumber(till or 0) or 0
  if till <= now or till > now + HOUR or other < 1 or other > MOST then
    longest, afresh, other = f[6] and '', afresh or other > interval, 0
  end
  if lasted > interval and lasted <= MOST and lasted % 1 == 0 then
    other = math.max(other, lasted)
    till = now + math.min(other, HOUR)
  end
  longest = other > 0 and string.format('%d %d', other, till) or longest
  if interval > 0 and other > interval then
    span, afresh = other, true
  end
end
if own then
  local voucher = redis.call('HGET', KEYS[1], 'session:' .. KEYS[2]) or ''
  local every, right = string.match(voucher, '^(%d+) %d+ 0 0 (%-?%d+)$')
  afresh = afresh or tonumber(right or '') ~= rate or tonumber(every) ~= math.max(0, interval)
  vouched = string.sub(voucher, FROM, TO) == string.sub(at, 1, 9) and not afresh
end
local stored = tonumber(text)
if stored and (stored % 1 ~= 0 or stored >= MOST or stored <= -MOST -- at 2^53 it may be rounded
  or string.sub(text, 1, 2) == '-0') then -- write.lua
  stored = nil
end
local value = stored
if afresh then
  value = nil
elseif set and value then
  value = value + (rate - was) -- in this order exact up to 2^53
end
