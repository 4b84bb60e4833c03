-- hint.lua: when a waiter should look again without a notification.
--
-- in:      now, head, ends
-- out:     held (1 if the lock is held), hint (in ms; -1 if the lock is held without end)
-- changes: none
-- ends the script: no
-- writes:  no

local held, hint = redis.call('EXISTS', KEYS[1]), 0
if held == 1 then
  hint = redis.call('PTTL', KEYS[1])
elseif not head or ends > now then
  -- The next owner has time until its place expires. It may leave earlier, of which Java does not notify.
  local SOONEST, LATEST = 100, 1000
  hint = math.max(SOONEST, math.min(LATEST, ends - now))
end -- otherwise more expired places are left than were dropped at once
