-- notify.lua: notifies the next owner that the lock is free.
--
-- in:      head
-- out:     notified (number of notified clients)
-- changes: none
-- ends the script: no
-- writes:  yes

local notified = 0
if head then
  local channel = KEYS[4] .. ':' .. head
  -- A user without the right to publish can still unlock.
  notified = ARGV[1] == '1' and redis.pcall('SPUBLISH', channel, '0') or redis.pcall('PUBLISH', channel, '0')
  notified = tonumber(notified) or 0
end
