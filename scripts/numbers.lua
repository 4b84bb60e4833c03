-- numbers.lua: stands behind acquire.lua and peek.lua and makes their reply.

local reply = wait
if ARGV[6] and ARGV[6] ~= '' then
  local newest = redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')
  local reset = 0
  if newest[1] and tonumber(newest[2]) > expired then
    reset = math.max(1, math.min(interval, newest[2] + interval - now))
  end
  reply = { wait, rate, value, reset }
end
