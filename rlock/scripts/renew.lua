-- renew.lua: renews the lease of locks. scripts.go repeats the line with KEYS[1] for each lock, with the
-- numbers that follow.
--
-- KEYS[1]  the first lock, and so on
-- ARGV[1]  the lease, in ms
-- ARGV[2]  the owner of the first lock, and so on
-- Reply:   for each lock 1, or 0 if its owner does not hold it

local kept = {}
kept[1] = redis.pcall('HEXISTS', KEYS[1], ARGV[2]) == 1 and redis.call('PEXPIRE', KEYS[1], ARGV[1]) or 0
return kept
