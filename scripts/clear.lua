-- clear.lua: removes the value and permits of the type that is not in force.
--
-- KEYS, ARGV[1]: parts/common.lua
-- Reply:   keys removed; 0 when the type is in force

if (redis.call('HGET', KEYS[1], 'type') == '1') == (ARGV[1] == '1') then
  return 0
end
return redis.call('UNLINK', KEYS[2], KEYS[3])
