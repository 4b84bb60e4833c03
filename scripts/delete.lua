-- delete.lua: removes a limiter.
--
-- KEYS[1..5]  NAME, the value and permits all clients share, and our own of a PER_CLIENT limiter
-- ARGV[1]     the channel that tells those who wait
-- Reply:      how many of the keys there were

redis.pcall('PUBLISH', ARGV[1], 'changed')
return redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
