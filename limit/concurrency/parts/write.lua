-- write.lua: writes the sum of all permits, and the time to live of the key.
--
-- in:       whole, now, sum, taken, leases, changed
-- out:      reset (when all leases have ended, in us)
-- changes:  none
-- writes:   yes
-- ends the script: no

local reset = 0
if leases > 0 then
  if changed then
    redis.call('ZADD', KEYS[1], whole(-taken), sum)
  end
  reset = redis.call('ZRANGE', KEYS[1], '-1', '-1', 'WITHSCORES')[2] - now
  if reset <= 0 then -- all have ended, more than could be dropped one by one
    redis.call('UNLINK', KEYS[1])
    reset = 0
  elseif changed then
    redis.call('PEXPIRE', KEYS[1], whole(math.ceil(reset / 1000)))
  end
elseif changed then
  redis.call('UNLINK', KEYS[1])
end
