-- java.lua: how the owners of Go and Java in the queue of a fair lock differ.
--
-- in:      none
-- out:     GO (a pattern for owners of Go: their numbers have 19 digits, and those of Redisson are the ids of
--          threads), JAVA (the ms that an owner of Redisson adds to its score if its wait has no end, and
--          subtracts from all scores when it gets the lock)
-- changes: none
-- ends the script: no
-- writes:  no

local GO, JAVA = ':[4-9]%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d$', 300000
