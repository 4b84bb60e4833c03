-- vouch.lua: notes in the session of the Client for which rate the own value of a PER_CLIENT limiter is right
-- from now on, for a call whose session is another one (rebuild.lua).
--
-- in:       own, rate, client (the session of the Client)
-- out:      none
-- changes:  none
-- writes:   yes
-- ends the script: no

if own then
  local vouches = string.match(redis.call('HGET', KEYS[1], client) or '', '^(%d+ %d+ %-?%d+ %d+) ')
  if vouches then
    redis.call('HSET', KEYS[1], client, string.format('%s %d', vouches, rate))
  end
end
