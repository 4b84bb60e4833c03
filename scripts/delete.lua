-- delete.lua: removes a limiter; changed.lua stands before it.
--
-- KEYS[1..5]  NAME, the value and permits all clients share, and our own of a PER_CLIENT limiter
-- ARGV[1]     the channel of changed.lua
-- Reply:      how many of the keys there were

return redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
