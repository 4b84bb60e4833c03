-- force.lua: unlocks a lock for any holder.
--
-- KEYS[1]  the lock
-- KEYS[2]  the channel of the lock
-- ARGV[1]  1 if the channel is a sharded one
-- Reply:   1 if there was a lock, otherwise 0; an error if a rate limiter has this name

-- include parts/limiter.lua
-- The hash may be huge if it is not a lock.
local there = redis.call('UNLINK', KEYS[1])
if there == 1 and ARGV[1] == '1' then
  redis.pcall('SPUBLISH', KEYS[2], '0')
elseif there == 1 then
  redis.pcall('PUBLISH', KEYS[2], '0')
end
return there
