-- rebuild.lua: rebuilds the own value of a PER_CLIENT limiter, for a call whose session is not that of the
-- Client, unless the session of the Client vouches for it: other sessions do not know who has written it
-- last.
--
-- in:       own, rate, gone, count, value, MANY, client (the session of the Client)
-- out:      none
-- changes:  value
-- writes:   no
-- ends the script: no

if own then
  local entry = redis.call('HGET', KEYS[1], client) or ''
  if tonumber(string.match(entry, '^%d+ %d+ %-?%d+ %d+ (%-?%d+)$') or '') ~= rate then
    local sum, rank = 0, gone
    -- include parts/outstanding.lua
    value = rate - sum
  end
end
