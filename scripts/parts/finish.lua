-- finish.lua: the end of the scripts that change permits. It writes the value, gives the keys their life
-- and removes records.
--
-- Records that are too far ahead (ahead.lua) are brought back to now, where something has shown that there
-- may be some and the time is the server's; a call brings back the 1,000 newest of them. When there were
-- so many, half a ms is taken off the oldest record: it expires in the same ms and stays the oldest, and a
-- time that is no whole ms tells the next call that there may be more (since.lua).
--
-- What may be the last record is removed when nothing names the key any more: while a slot of a cluster
-- moves to another node, a key that is not here may be there, and a script that names it ends with an
-- error in its midst.
--
-- in:       value, stored, step (value - stored as a text, nil where nobody has it), astray, timed, now, interval,
--           since, head, keep, own, away (records to remove, or nil), gone (how many to remove from the oldest
--           on; beyond MANY they are all, and Redis frees them behind our back), MANY, reply
-- out:      none
-- changes:  astray
-- writes:   yes
-- ends the script: yes

if astray and timed then
  local BROUGHT = 1000
  local from = string.format('(%d', now + math.min(1000, interval / 10))
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

-- INCRBY takes less time than SET, but refuses some texts that are integers to Lua, such as 1e3.
if not stored or (value ~= stored and type(redis.pcall('INCRBY', KEYS[2], step or value - stored)) == 'table') then
  redis.call('SET', KEYS[2], value)
end
-- include parts/lifetime.lua

for i = 1, away and #away or 0 do
  redis.call('ZREM', KEYS[3], away[i])
end
if gone > MANY then
  redis.call('UNLINK', KEYS[3])
elseif gone > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, gone - 1)
end
return reply
