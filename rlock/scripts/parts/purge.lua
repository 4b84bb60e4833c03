-- purge.lua: removes owners at the head of the queue that have an expired place or no score: they will not
-- take the lock, and they block it. One call removes a bounded number.
--
-- in:      now
-- out:     head the next owner (false if the queue is empty), ends (when its place expires), dropped (whether
--          any was)
-- changes: none
-- ends the script: no
-- writes:  yes

local head, ends, dropped = false, 0, false
do
  local MOST = 100
  for _ = 0, MOST do
    head = redis.call('LINDEX', KEYS[2], '0')
    ends = head and tonumber(redis.call('ZSCORE', KEYS[3], head)) or 0
    if not head or ends > now then
      break
    end
    redis.call('LPOP', KEYS[2])
    redis.call('ZREM', KEYS[3], head)
    dropped = true
  end
end
