-- token.lua: draws a token: one more than the last, and no less than the time of the server in us, so that
-- it is also greater than tokens that a failover or a restart has forgotten. Redisson adds one to the
-- last.
--
-- KEYS[3]  the last token, of a fenced lock only
--
-- in:      none
-- out:     token (0 for other locks; an error, in a table, if the last token is not a number or the greatest)
-- changes: none
-- ends the script: no
-- writes:  yes

local token = 0
if KEYS[3] then
  local time, last = redis.call('TIME'), redis.pcall('GET', KEYS[3])
  last = type(last) == 'string' and tonumber(last) or 0
  local more = math.max(1, time[1] * 1000000 + time[2] - last)
  token = redis.pcall('INCRBY', KEYS[3], string.format('%d', more))
end
