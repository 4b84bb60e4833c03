-- common_time.lua: the time for the common case, without a function: now in ms, us (those beyond now), at
-- (now as a text).

local at, us = ARGV[6] or '', 0
if at == '' then
  local t = redis.call('TIME') -- s, and the us beyond them
  at, us = t[1] .. string.sub('00000' .. t[2], -6, -4), tonumber(string.sub(t[2], -3))
end
local now = tonumber(at)
