-- waiting.lua: notes that callers of this Client wait, for the portions of others (portion.lua). They may be
-- refused next an interval from now, so this is noted anew after half a second, and not by each call.
--
-- ARGV[2]  the session of this Client
--
-- in:       answers, wants, crowd, mine, now, interval
-- out:      none
-- changes:  none
-- writes:   yes
-- ends the script: no

if wants and answers then
  local LIFE, OLD = 1000, 500 -- ms beyond an interval
  if mine < now + interval + OLD then
    local till = string.format('%d', now + interval + LIFE)
    crowd[#crowd + 1] = ARGV[2] .. ' ' .. wants .. ' ' .. till .. ';'
    redis.pcall('HSET', KEYS[1], 'waiting', table.concat(crowd)) -- a hint: what has no memory does without
  end
end
