-- rename.lua: renames a limiter.
--
-- KEYS[1..5]   NAME, the value and permits that all clients share, and those of this client for PER_CLIENT
-- KEYS[6..10]  the same keys of the new name; they are overwritten or removed
-- ARGV[1]      the channel that wakes waiters
-- Reply:       1 done, or 0: there is no limiter

redis.pcall('PUBLISH', ARGV[1], 'changed')
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
elseif KEYS[1] == KEYS[6] then
  return 1
end
redis.call('UNLINK', KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10])
redis.call('RENAME', KEYS[1], KEYS[6])
redis.pcall('HDEL', KEYS[6], 'session:' .. KEYS[4]) -- the voucher (parts/write.lua): the old name may return
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('RENAME', KEYS[2], KEYS[7])
end
if redis.call('EXISTS', KEYS[3]) == 1 then
  redis.call('RENAME', KEYS[3], KEYS[8])
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('RENAME', KEYS[4], KEYS[9])
end
if redis.call('EXISTS', KEYS[5]) == 1 then
  redis.call('RENAME', KEYS[5], KEYS[10])
end
return 1
