-- tell.lua: tells the owner that is next that the lock is free.
--
-- in:      head
-- out:     told (how many clients were told)
-- changes: none
-- ends the script: no
-- writes:  yes

local told = 0
if head then
  local channel = KEYS[4] .. ':' .. head
  -- A user who may not publish unlocks all the same.
  told = ARGV[1] == '1' and redis.pcall('SPUBLISH', channel, '0') or redis.pcall('PUBLISH', channel, '0')
  told = tonumber(told) or 0
end
