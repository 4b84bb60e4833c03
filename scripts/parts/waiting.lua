-- waiting.lua: tells other Clients that callers of this Client wait, so that they leave it a portion
-- (portion.lua). A note is valid until an interval and a second from now, and a call renews it only if it
-- is half a second old.

local LIFE, OLD = 1000, 500 -- ms beyond an interval
if share.till < now + interval + OLD then
  local crowd = share.crowd
  crowd[#crowd + 1] = ARGV[2] .. ' ' .. share.wants .. ' ' .. string.format('%d;', now + interval + 1000)
  redis.pcall('HSET', KEYS[1], 'waiting', table.concat(crowd)) -- a hint: a server without memory skips it
end
