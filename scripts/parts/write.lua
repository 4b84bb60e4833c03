-- write.lua: writes the configuration, the session, the value and the lives of the keys, and removes records.
-- plain.lua explains the names; taken are the permits that were granted, took the same as a text, lease the
-- ms that their record is ahead of now; entry is the text of the session (sessions.lua), nil if it stays.
-- ttl is the time to live of the hash where calls do not prolong it, otherwise -1; nil if no key has to live
-- longer.
--
-- A voucher tells for which rate and interval the own value of a PER_CLIENT limiter is right, because a
-- client that changes them cannot reach the values of other clients. It is a field named `session:` and the
-- key of the value, which all Clients with one ID share, as they share the value; it has the form of a
-- session, and expires like one: interval, time, 0, 0, rate. A call that finds it more than 10 s old renews
-- it. Without it the value is summed. Older versions write 0 for the interval.
--
-- After it, value and records live as long as the hash, or little longer: no record expires while it counts,
-- none stays when the hash has gone, and no value stays without the records, whatever another program did to
-- one of the keys. With a keep alive time, all live that long from now on, but at least an interval and a
-- second: a caller that waits for permits must not find that the limiter expired in the ms in which they
-- come back. With a given rate an eighth less does no harm, and saves three commands in most calls, but a
-- later end, as by Expire, is replaced like an earlier one. The pair of one PER_CLIENT client whose hash
-- lives for ever expires after its last record has: then all permits are back anyway, and many clients come
-- and never return.
--
-- Records are removed last. The key is gone with its last record, and while a slot of a cluster moves, a
-- script that names a key that is not here ends with an error, half done.

if set then -- a field that is written twice keeps its last text
  redis.call('HSET', KEYS[1], 'rate', f[1], 'interval', f[2], 'type', f[3], 'keepAliveTime', f[4],
    entry and ARGV[2] or 'type', entry or f[3])
  if endless then
    redis.call('PERSIST', KEYS[1])
  end
elseif entry then
  redis.call('HSET', KEYS[1], ARGV[2], entry)
end
if entry and there and not recent then
  -- include parts/sessions.lua
end
if longest == '' then
  redis.call('HDEL', KEYS[1], 'longest')
elseif longest then
  redis.call('HSET', KEYS[1], 'longest', longest)
end
if not vouched then
  local voucher = string.format('%016d %s 0 0 %d', math.max(0, interval), at, rate)
  redis.call('HSET', KEYS[1], 'session:' .. KEYS[2], voucher)
end
-- INCRBY takes less time than SET, but refuses some texts that Lua takes for integers, such as 1e3, and a
-- change of 2^53 or more may be rounded. SET removes the time to live. If stored is false, the value is
-- unsure, and 0 or less: then it begins with -0. For Java it is that number, which grows as records expire;
-- Go takes it for lost, and sums.
local change = stored and value - taken - stored
local ROUNDED = 9007199254740992 -- 2^53
local exact = stored and math.abs(change) < ROUNDED
local step = change == -taken and taken > 0 and '-' .. took or string.format('%d', change or 0)
if change ~= 0 and (not exact or type(redis.pcall('INCRBY', KEYS[2], step)) == 'table') then
  local text = string.format('%d', value - taken)
  redis.call('SET', KEYS[2], stored == false and '-0' .. string.gsub(text, '-', '') or text)
  ttl = ttl or redis.call('PTTL', KEYS[1])
end
local SECOND, MINUTE = 1000, 60000 -- ms; with a short interval, keys should not come and go with every call
if ttl and keep > 0 then
  local lives = given ~= '' and there and redis.call('PTTL', KEYS[1]) or 0
  local lasts = math.max(keep, span + SECOND)
  local renews = lives > lasts or lives < math.max(keep - keep / 8, span + lease + SECOND)
  if not renews then
    local values, records = redis.call('PTTL', KEYS[2]), redis.call('PTTL', KEYS[3])
    renews = lives > values or values > records or records > lives + span + SECOND
  end
  if renews then
    lives = string.format('%d', lasts)
    redis.call('PEXPIRE', KEYS[1], lives)
    redis.call('PEXPIRE', KEYS[2], lives)
    redis.call('PEXPIRE', KEYS[3], lives)
  end
elseif ttl and (ttl >= 0 or own) then
  local lives = string.format('%d', ttl >= 0 and math.max(1, ttl) or 2 * math.max(0, span) + MINUTE)
  redis.call('PEXPIRE', KEYS[2], lives)
  redis.call('PEXPIRE', KEYS[3], lives)
elseif ttl then
  redis.call('PERSIST', KEYS[2])
  redis.call('PERSIST', KEYS[3])
end
if dead > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[3], '0', dead - 1)
end
