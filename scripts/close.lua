-- close.lua: stands behind the scripts that change permits, before lifetime.lua. It writes the value.
-- INCRBY takes less time than SET, but refuses some texts that are integers to Lua, such as 1e3.

if not stored or (value ~= stored and type(redis.pcall('INCRBY', KEYS[2], step or value - stored)) == 'table') then
  redis.call('SET', KEYS[2], value)
end
