-- finish.lua: the end of the scripts that change permits. It writes the value, sets the time to live of the
-- keys and removes records.
--
-- Records are removed last, after every other command. The key is gone with its last record. While a slot
-- of a cluster moves to another node, a key that is not here may be there. A script that names such a key
-- ends with an error, half done.

-- finish ends a call. step is value - stored as a text, nil if that is not known. l.away are records to
-- remove, or nil; l.dead says how many to remove, from the oldest on: above MANY they are all records.
local function finish(l, step)
  if l.astray and l.timed then
    -- include parts/bring_back.lua
    bringBack(l)
  end
  if l.own and not l.vouched then
    -- include parts/vouch.lua
    vouch(l)
  end
  if l.longest == false then
    l.hash('HDEL', 'longest')
  elseif l.longest then
    l.hash('HSET', 'longest', l.longest)
  end
  -- INCRBY takes less time than SET. But it refuses some texts that Lua takes for integers, such as 1e3. SET
  -- removes the time to live.
  if not l.stored
    or (l.value ~= l.stored and type(l.text('INCRBY', step or l.value - l.stored)) == 'table') then
    l.text('SET', l.value)
  end
  -- include parts/lifetime.lua
  setLifetime(l)
  for i = 1, l.away and #l.away or 0 do
    l.records('ZREM', l.away[i])
  end
  if l.dead > MANY then
    l.records('UNLINK') -- another thread of Redis frees them
  elseif l.dead > 0 then
    l.records('ZREMRANGEBYRANK', 0, l.dead - 1)
  end
end
