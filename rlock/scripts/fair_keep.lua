-- fair_keep.lua: renews the places of some owners of one process in the queue of a fair lock, and says whose turn it is.
--
-- An owner of Redisson that wins takes off all scores what it had added. Behind one, a place needs that much more; and
-- as the lock may be held for long meanwhile, time does not count for it. What has a score beyond what ours have is
-- taken for an owner of Redisson.
--
-- KEYS[1]  the lock
-- KEYS[2]  the queue: a list of owners, the next one first
-- KEYS[3]  when the place of each of them ends, in ms: a sorted set
-- KEYS[4]  what the channel of each owner begins with
-- ARGV[1]  1 if the channels are sharded ones
-- ARGV[2]  how long a place lasts, in ms
-- ARGV[3]  the time since it was renewed, in ms
-- ARGV[4]  an owner, and so on
-- Reply:   {when to look again, in ms, -1 if that is not known; the numbers of the owners that should ask for the
--          lock: the lock is free for them, or they are not in the queue}

local place, passed = tonumber(ARGV[2]), tonumber(ARGV[3])
local BEFORE = 3 -- arguments before the owners
local JAVA = 300000 -- what an owner of Redisson adds, if its wait has no end
local SEEN = 1000 -- owners that are looked at
-- include parts/now.lua
local number = {}
for i = BEFORE + 1, #ARGV do
  number[ARGV[i]] = i - BEFORE
end
local queue, found, ahead = redis.call('LRANGE', KEYS[2], 0, SEEN - 1), {}, false
for _, owner in ipairs(queue) do
  local score = tonumber(redis.call('ZSCORE', KEYS[3], owner)) or 0
  if not number[owner] then
    ahead = math.max(ahead or 0, score)
  else
    found[owner] = true
    local ends = now + place
    if ahead then
      ends = math.max(ends, score + passed, ahead > ends and ends + JAVA or 0)
    end
    redis.call('ZADD', KEYS[3], ends, owner)
  end
end
-- include parts/purge.lua
-- include parts/hint.lua
local reply = {hint}
if held == 0 and head and number[head] then
  reply[2] = number[head]
elseif held == 0 then
  -- It may have missed it, or be new at the head, as the one before has left.
  -- include parts/tell.lua
end
if #queue < SEEN then
  for i = BEFORE + 1, #ARGV do
    if not found[ARGV[i]] then
      reply[#reply + 1] = i - BEFORE
    end
  end
end
return reply
