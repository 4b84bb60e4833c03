-- own.lua: stands before release.lua, behind mine.lua or seen.lua, where permits are given back that a
-- certain request was granted. If somebody has cleared the limiter since, they are back, and what is out
-- now is not what it took. Nobody has where the request is still known: by its mark, or by a record. A
-- record that others have released whole is no loss of proof: what is out then was taken before it, for
-- the newest go first.
--
-- receipts, known   as in any.lua

local receipts = first + 2
local known = #found > 0
if mark then
  known = held ~= nil and oldest <= tonumber(number)
end
known = known or (head[1] ~= nil and since < now - ARGV[5])
