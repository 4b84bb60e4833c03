-- unseen.lua: a check of the value that does not depend on expired records. A Java whose clock is ahead
-- removes them, and adds them to the value, before Go finds any. So if no record has expired, the value is
-- checked once in ten seconds, unless there are too many records to be summed. The first request of a Client
-- in each ten seconds sees to it, and notes in its session that it has (acquire.lua); a Client without a
-- session does so in one ms of IN. The note of all Clients is the field `session:checked`, which has the form
-- of a session and expires like one. A script that writes nothing sets l.unseen to false, and checks nothing.

local sums = false
if l.unseen == nil and l.head[1] and l.gone == 0 and not l.set then
  local TEN, IN = 10000, 17 -- ms
  local piece, used = math.floor(l.now / TEN), string.match(l.session or '', '^%d+ (%d+)')
  local due = l.now % IN == 0
  if used then
    due = math.floor(tonumber(used) / TEN) ~= piece
  end
  l.unseen = due or nil
  local size = due and l.records('ZCARD') or 0
  sums = due and size <= FEW
  if size > FEW and size <= MANY then
    local checked = string.match(l.hash('HGET', 'session:checked') or '', '^%d+ (%d+)')
    sums = math.floor(tonumber(checked or 0) / TEN) ~= piece
    if sums then
      l.hash('HSET', 'session:checked', string.format('%016d %d 0 0', 0, l.now))
    end
  end
end
