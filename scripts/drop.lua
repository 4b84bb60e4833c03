-- drop.lua: stands between what a script finds out and what it writes. It removes the records that
-- the value counts as back, where others stay. Where none counts any more, last.lua removes them.

if gone > 0 and head[1] then
  redis.call('ZREMRANGEBYRANK', KEYS[3], 0, gone - 1)
  gone = 0
end
