-- common_time.lua: the time for the common case, without a function: now in ms, us (those beyond now), at
-- (now as a text).

local at, us, now = ARGV[6] or '', 0, nil
if at == '' then
  local t = redis.call('TIME') -- s, and the us beyond them
  us = t[2] % 1000
  now = t[1] * 1000 + (t[2] - us) / 1000
  at = string.format('%d', now)
else
  now = tonumber(at)
end
