-- unseen.lua: a check of the value that does not depend on expired records. A Java whose clock is ahead
-- removes them, and adds them to the value, before Go finds any. So if no record has expired, the first
-- request of a Client in ten seconds looks, and notes in its session that it has (acquire.lua); one without a
-- session looks in one ms of IN.
--
-- The value is summed once in ten seconds, or in an interval if that is longer, as it is where Go finds
-- expired records: until then permits that Java has released can be used. The field `checked` has the time
-- of the last sum, or of the first look. A script that writes nothing, or sums anyway, sets l.unseen to
-- false.

local sums = false
if l.unseen == nil and l.head[1] and l.gone == 0 and not l.set and not check then
  local TEN, IN = 10000, 17 -- ms
  local used = string.match(l.session or '', '^%d+ (%d+)')
  local due = l.now % IN == 0
  if used then
    due = math.floor((tonumber(used) or 0) / TEN) ~= math.floor(l.now / TEN) -- miniredis reads no huge number
  end
  l.unseen = due or nil
  if due then
    -- include parts/outstanding.lua
    local size, piece, value = l.records('ZCARD'), math.max(TEN, l.interval), nil
    if size <= FEW then
      value = l.rate - outstanding(l, 0)
    end
    if value ~= l.value then
      local checked = tonumber(l.hash('HMGET', 'checked')[1] or 0) or 0
      if math.floor(checked / piece) ~= math.floor(l.now / piece) then
        l.hash('HINT', 'checked', l.at)
        sums = checked ~= 0 and size <= MANY
      end
    end
  end
end
