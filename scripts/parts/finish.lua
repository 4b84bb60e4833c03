-- finish.lua: the end of the scripts that change permits. It writes the value, sets the time to live of the
-- keys and removes records.
--
-- Records that are too far ahead (ahead.lua) are brought back to now, if a record has shown that there may
-- be some (astray) and the time is the server's. A call brings back the 1,000 newest. If there were that
-- many, there may be more, and the next call must know. So half a ms is taken off the time of the oldest
-- record: it still expires in the same ms and is still the oldest, and since.lua notices a time that is no
-- whole ms.
--
-- Records are removed last, after every other command. The key is gone with its last record. While a slot
-- of a cluster moves to another node, a key that is not here may be there. A script that names such a key
-- ends with an error, half done.
--
-- in:       value, stored, step (value - stored as a text, nil if the script has not made it), astray, timed,
--           now, interval, since, head, keep, own, session, known, rate, away (records to remove, or nil),
--           dead (how many to remove, from the oldest on; above MANY they are all records), span, longest,
--           total, MANY,
--           lasts (nil, or the ms for which all keys must live: if they do, that is left as it is)
-- out:      none
-- changes:  astray
-- writes:   yes
-- ends the script: no

if astray and timed then
  -- BROUGHT bounds the time of a call. NEAR is what ahead.lua allows a record without a mark.
  local BROUGHT, NEAR = 1000, math.min(1000, interval / 10)
  local from = string.format('(%d', now + NEAR)
  local far = redis.call('ZREVRANGEBYSCORE', KEYS[3], '+inf', from, 'WITHSCORES', 'LIMIT', '0', BROUGHT)
  local text = string.format('%d', now)
  for i = 1, #far, 2 do
    local member, at = far[i], tonumber(far[i + 1]) or math.huge
    -- include parts/ahead.lua
    if at == now then
      redis.call('ZADD', KEYS[3], 'XX', text, member)
    end
  end
  if #far == 2 * BROUGHT and head[1] then
    redis.call('ZADD', KEYS[3], 'XX', string.format('%d.5', since - 1), head[1])
  end
end

-- The value of a PER_CLIENT limiter is right for the rate of now. The session has to say so, unless
-- parts/session.lua has: after two changes of the rate it would vouch for a value that nobody has rebuilt.
if own and session and not known then
  local done = string.match(session, '^(%d+ %d+ %-?%d+ %d+) ')
  if done then
    redis.call('HSET', KEYS[1], ARGV[2], string.format('%s %d', done, rate))
  end
end

if longest == false then
  redis.call('HDEL', KEYS[1], 'longest')
elseif longest then
  local entry = not own and total and string.format('%s %d %d', longest, math.max(0, total), value) or longest
  redis.call('HSET', KEYS[1], 'longest', entry)
end
-- INCRBY takes less time than SET. But it refuses some texts that Lua takes for integers, such as 1e3.
if not stored
  or (value ~= stored and type(redis.pcall('INCRBY', KEYS[2], step or value - stored)) == 'table') then
  redis.call('SET', KEYS[2], value)
end
if not (lasts and stored and head[1] and redis.call('PTTL', KEYS[1]) >= lasts) then
  -- include parts/lifetime.lua
end

for i = 1, away and #away or 0 do
  redis.call('ZREM', KEYS[3], away[i])
end
if dead > MANY then
  redis.call('UNLINK', KEYS[3]) -- another thread of Redis frees them
elseif dead > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, dead - 1)
end
