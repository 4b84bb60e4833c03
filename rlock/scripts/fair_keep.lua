-- fair_keep.lua: renews the places of owners of one process in the queue of a fair lock, and replies whose
-- turn it is.
--
-- A Redisson owner that gets the lock subtracts its own wait from all scores. A place behind such an owner
-- therefore lasts longer by that wait, and does not expire then.
--
-- A place of another Go process that lasts longer than this script would make it is shortened: the clock
-- of the server was set back, and a dead waiter would block the queue until the clock has caught up.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue: a list of owners, the first one next
-- KEYS[3]  a sorted set: when the place of each owner expires, in ms
-- KEYS[4]  the prefix of the channels of the owners
-- ARGV[1]  1 if the channels are sharded ones
-- ARGV[2]  how long a place lasts, in ms
-- ARGV[3]  an owner, and so on
-- Reply:   {when to look again, in ms, -1 if unknown; the last 15 digits of the number of the holder, or of
--          the next owner if the lock is free, 0 if it is of another process; the numbers of the owners that
--          should ask for the lock: it is free for them, or they are not in the queue}

local BEFORE = 2 -- arguments before the owners
local SEEN = 1000 -- owners that are looked at
-- include parts/java.lua
-- include parts/now.lua
local number, found = {}, {}
for i = BEFORE + 1, #ARGV do
  number[ARGV[i]] = i - BEFORE
end
local renewed, queue = now, redis.call('LRANGE', KEYS[2], '0', SEEN - 1)
for _, owner in ipairs(queue) do
  if number[owner] then
    found[owner] = true
    redis.call('ZADD', KEYS[3], renewed + tonumber(ARGV[2]), owner)
  elseif not string.find(owner, GO) then
    renewed = math.max(renewed + JAVA, tonumber(redis.call('ZSCORE', KEYS[3], owner)) or 0)
  elseif (tonumber(redis.call('ZSCORE', KEYS[3], owner)) or 0) > renewed + tonumber(ARGV[2]) then
    redis.call('ZADD', KEYS[3], renewed + tonumber(ARGV[2]), owner)
  end
end
-- include parts/purge.lua
-- include parts/hint.lua
local owner = ARGV[BEFORE + 1]
local named = held == 0 and head or redis.call('HLEN', KEYS[1]) == 1 and redis.call('HKEYS', KEYS[1])[1]
-- include parts/holder.lua
local reply = {hint, holder}
if held == 0 and head and number[head] then
  reply[3] = number[head]
elseif held == 0 then
  -- It may have missed the message, or the head before it may have left.
  -- include parts/notify.lua
end
for i = BEFORE + 1, #ARGV do
  local waiter = ARGV[i]
  local score = not found[waiter] and tonumber(redis.call('ZSCORE', KEYS[3], waiter))
  if score and #queue == SEEN then -- the owner is behind those that were looked at
    redis.call('ZADD', KEYS[3], math.max(score, renewed + tonumber(ARGV[2])), waiter)
  elseif not found[waiter] then
    redis.call('ZREM', KEYS[3], waiter) -- with a score the owner would not queue again
    reply[#reply + 1] = i - BEFORE
  end
end
return reply
