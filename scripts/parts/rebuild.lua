-- rebuild.lua: rebuilds the own value of a PER_CLIENT limiter, for a call whose session is not that of the
-- Client, unless the session of the Client vouches for it: other sessions do not know who has written it
-- last.
--
-- An estimate (outstanding.lua) does not lower what the value says is outstanding, if the session of the
-- Client says for which rate.
--
-- in:       own, rate, gone, count, value, stored, back, MANY, client (the session of the Client)
-- out:      none
-- changes:  value
-- writes:   no
-- ends the script: no

if own then
  local entry = redis.call('HGET', KEYS[1], client) or ''
  local vouched = tonumber(string.match(entry, '^%d+ %d+ %-?%d+ %d+ (%-?%d+)$') or '')
  if vouched ~= rate then
    local sum, rank = 0, gone
    -- include parts/outstanding.lua
    value = rate - sum
  end
  if vouched and stored and redis.call('ZCARD', KEYS[3]) - gone > MANY then
    value = math.min(value, stored + back + rate - vouched)
  end
end
