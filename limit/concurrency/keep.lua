-- keep.lua: restarts a lease, or ends it.
--
-- KEYS[1]  parts/read.lua
-- ARGV[1]  the member of the lease
-- ARGV[2]  how long it lasts, in us; 0 to end it
-- Reply:   1, or 0 if it had ended

-- include parts/read.lua
local member, lease = ARGV[1], tonumber(ARGV[2])
local found = redis.call('ZSCORE', KEYS[1], member) and 1 or 0
if found == 1 then
  changed = true
  if lease > 0 then
    redis.call('ZADD', KEYS[1], whole(now + lease), member)
  else
    redis.call('ZREM', KEYS[1], member)
    taken, leases = taken - parse(member), leases - 1
  end
end
-- include parts/write.lua
return found
