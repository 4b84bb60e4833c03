-- last.lua: stands at the end of the scripts that remove records, and answers their `reply`. What may
-- be the last record is removed here, when nothing names the key any more: while a slot of a cluster
-- moves to another node, a key that is not here may be there, and a script that names it ends with an
-- error in its midst.
--
-- away  as in limiter.lua
-- gone  how many to remove from the oldest on. Beyond MANY they are all, and Redis frees them behind
--       our back

for i = 1, away and #away or 0 do
  redis.call('ZREM', KEYS[3], away[i])
end
if gone > MANY then
  redis.call('UNLINK', KEYS[3])
elseif gone > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, gone - 1)
end
return reply
