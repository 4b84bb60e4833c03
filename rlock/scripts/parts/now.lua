-- now.lua: the time of the server, by which the places in the queue of a fair lock expire.
--
-- in:      none
-- out:     now (in ms)
-- changes: none
-- ends the script: no
-- writes:  no

local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
