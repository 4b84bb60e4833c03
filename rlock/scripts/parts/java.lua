-- java.lua: how the owners of Go and Java in the queue of a fair lock differ.
--
-- in:      none
-- out:     GO (the end of an owner of ours: its number has 19 digits; those of Redisson are the ids of
--          threads), JAVA (what an owner of Redisson adds to the scores if its wait has no end, in ms, and
--          takes off all when it wins)
-- changes: none
-- ends the script: no
-- writes:  no

local GO, JAVA = ':[4-9]%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d$', 300000
