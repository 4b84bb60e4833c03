-- clear.lua: removes the value and permits of one type, unless the limiter has that type.
--
-- KEYS, ARGV[1]: acquire.lua
-- Reply:   the number of keys removed; 0 if the limiter has the type

if (redis.call('HGET', KEYS[1], 'type') == '1') == (ARGV[1] == '1') then
  return 0
end
return redis.call('UNLINK', KEYS[2], KEYS[3])
