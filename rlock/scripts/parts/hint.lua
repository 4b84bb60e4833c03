-- hint.lua: when a waiter should look again if it is not told of an unlock.
--
-- in:      now, head, ends
-- out:     held (1 if somebody has the lock), hint (in ms; -1 if the lock is held without end)
-- changes: none
-- ends the script: no
-- writes:  no

local held, hint = redis.call('EXISTS', KEYS[1]), 0
if held == 1 then
  hint = redis.call('PTTL', KEYS[1])
elseif not head or ends > now then
  -- The owner that is next has time until its place ends. It may leave before, and Java does not tell then.
  local SOONEST, LATEST = 100, 1000
  hint = math.max(SOONEST, math.min(LATEST, ends - now))
end -- otherwise there are more to drop than were dropped at once
