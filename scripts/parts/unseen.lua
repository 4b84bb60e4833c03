-- unseen.lua: a check of the value that does not depend on expired records. A Java whose clock is ahead
-- removes them, and adds them to the value, before Go finds any. So if the oldest record is one of Java, the
-- first request of a Client in ten seconds, or in an interval if that is longer, checks the value, unless
-- there are too many records to be summed. The request notes in its session that it has (acquire.lua). A
-- script that writes nothing sets l.unseen to false, and checks nothing.

if l.unseen == nil and l.head[1] and not string.find(l.head[1], '\210G', 1, true) then
  local LEAST = 10000 -- ms: so that summing does not become most of the work
  local piece, used = math.max(LEAST, l.interval), string.match(l.session or '', '^%d+ (%d+)')
  local due = math.floor((used and tonumber(used) or 0) / piece) ~= math.floor(l.now / piece)
  l.unseen = due and l.records('ZCARD') <= MANY or nil
end
