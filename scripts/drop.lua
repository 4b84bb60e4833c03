-- drop.lua: stands between what a script finds out and what it writes. It removes the records that
-- the value counts as back. Where none counts any more, Redis frees them behind our back.

if gone > 0 and head[1] then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, gone - 1)
elseif gone > 0 then
  redis.call('UNLINK', KEYS[3])
end
