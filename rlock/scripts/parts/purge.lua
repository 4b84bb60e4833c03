-- purge.lua: drops from the head of the queue those whose place has ended, or who have no score: neither
-- would take the lock, and nobody else could. So many at once.
--
-- in:      now
-- out:     head the owner that is next (false if nobody waits), ends (when its place ends), dropped (whether
--          any was)
-- changes: none
-- ends the script: no
-- writes:  yes

local head, ends, dropped = false, 0, false
do
  local MOST = 100
  for _ = 0, MOST do
    head = redis.call('LINDEX', KEYS[2], 0)
    ends = head and tonumber(redis.call('ZSCORE', KEYS[3], head)) or 0
    if not head or ends > now then
      break
    end
    redis.call('LPOP', KEYS[2])
    redis.call('ZREM', KEYS[3], head)
    dropped = true
  end
end
