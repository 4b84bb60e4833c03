-- limiter.lua: refuses a name that a rate limiter has.
--
-- in:      none
-- out:     none
-- changes: none
-- ends the script: yes
-- writes:  no

if redis.call('HGET', KEYS[1], 'rate') then
  return redis.error_reply('WRONGTYPE a rate limiter has this name')
end
