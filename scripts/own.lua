-- own.lua: stands before release.lua, behind mine.lua or seen.lua, where permits are given back that a
-- certain request was granted, unless somebody may have cleared the limiter since: what is out then is
-- not what it took. Nobody has if some of its records are left, and its mark, or others that are older
-- by a second and more, for servers that take over from one another.
--
-- receipts, known   as in any.lua

local receipts = first + 2
local known = (#found > 0 and (not mark or oldest <= tonumber(number)))
  or (head[1] ~= nil and tonumber(head[2]) < now - ARGV[5] - 1000)
