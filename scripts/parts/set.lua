-- set.lua: writes the given rate, where limiter.lua has found that it is to be set.
--
-- in:       set, rate, interval, own, alive (the keep alive to set)
-- out:      none
-- changes:  none
-- writes:   yes
-- ends the script: no

if set then
  redis.call('HSET', KEYS[1], 'rate', string.format('%d', rate), 'interval', string.format('%d', interval),
    'type', own and '1' or '0', 'keepAliveTime', string.format('%d', alive))
  redis.call('PERSIST', KEYS[1]) -- lifetime.lua sets what is to be
  redis.call('PERSIST', KEYS[3])
end
