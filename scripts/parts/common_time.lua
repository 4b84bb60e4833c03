-- common_time.lua: sets the time, that of ARGV[6] or of the server: now in ms, us beyond it, and at, which is
-- now as a text.

local at, us, now = ARGV[6] or '', 0, nil
if at == '' then
  local t = redis.call('TIME') -- s, and the us beyond them
  us = t[2] % 1000
  now = t[1] * 1000 + (t[2] - us) / 1000
  at = string.format('%d', now)
else
  now = tonumber(at)
end
