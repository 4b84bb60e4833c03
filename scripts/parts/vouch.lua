-- vouch.lua: notes in the session of the Client for which rate the own value of a PER_CLIENT limiter is right
-- from now on, for a call whose session is another one (rebuild.lua). Without that session it begins one,
-- whose request has the number 0, so that not every such call has to rebuild the value.
--
-- in:       own, rate, now, client (the session of the Client)
-- out:      none
-- changes:  none
-- writes:   yes
-- ends the script: no

if own then
  local entry = string.match(redis.call('HGET', KEYS[1], client) or '', '^(%d+ %d+ %-?%d+ %d+)')
    or string.format('%016d %d 0 0', 0, now)
  redis.call('HSET', KEYS[1], client, string.format('%s %d', entry, rate))
end
