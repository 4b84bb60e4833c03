-- delete.lua: removes a limiter.
--
-- KEYS[1..5]  NAME, the value and permits that all clients share, and those of this client for PER_CLIENT
-- ARGV[1]     the channel that wakes waiters
-- Reply:      the number of keys removed

redis.pcall('PUBLISH', ARGV[1], 'changed')
return redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
