-- lower.lua: subtracts from the scores behind an owner of Go what its place has added to them, as owners of
-- Redisson do when they get the lock or leave. Otherwise places would last longer with every such owner, as
-- long as the queue is not empty. No place becomes shorter than the waits of Redisson's owners up to it.
--
-- Consecutive owners of Go add their time once (fair_lock.lua, fair_keep.lua), so include this for the last
-- of them.
--
-- in:      now, GO, JAVA, rank (how many owners are before the first place to lower)
-- out:     none
-- changes: none
-- ends the script: no
-- writes:  yes

do
  local PLACE, SEEN = 30000, 1000 -- ms that fair_keep.lua gives a place; owners that are looked at
  local least, queue = now, redis.call('LRANGE', KEYS[2], '0', SEEN - 1)
  for i, other in ipairs(queue) do
    if not string.find(other, GO) then
      least = least + JAVA
    end
    local ends_at = i > rank and tonumber(redis.call('ZSCORE', KEYS[3], other)) or 0
    if ends_at > least then
      redis.call('ZADD', KEYS[3], math.max(ends_at - PLACE, least), other)
    end
  end
end
