-- remove.lua: removes the records that find.lua found, and puts the value right. If no other record counts,
-- it leaves the removal to finish.lua (l.away), which says why.
--
-- If it takes records of other Clients, it notes the time of the newest one, because a withdrawal may miss it
-- (withdraw.lua). From then on a Client may hold permits without a record of its own: giving these back takes
-- its newest record, which may be that of a grant that is to be withdrawn. So later removals are noted as
-- well, also those of own records. So are removals while calls of Groups of this Client are under way, for
-- other requests do not withdraw these. The note has the form of a session, and expires like one
-- (session.lua).

-- remove removes the records in the result of find. groups says that there are such calls.
local function remove(l, found, groups)
  local whole, part = found.whole, found.part
  l.total = l.total and l.total - found.given
  if found.given > 0 then
    local before = string.match(l.hash('HGET', 'session:freed') or '', '^%d+ %d+ 0 (%d+)$')
    local at = tonumber(before or '') or 0
    if before or found.other or groups then
      for _, newest in ipairs({ whole[1] or part, found.other }) do
        at = math.max(at, math.ceil(tonumber(l.records('ZSCORE', newest)) or l.now))
      end
      l.hash('HSET', 'session:freed', string.format('%016d %d 0 %d', 0, l.now, math.min(MOST, at)))
    end
  end
  if l.head[1] and not part and #whole == l.records('ZCARD') - l.gone then
    l.away, l.head, l.since, l.value = whole, {}, nil, l.rate
  elseif part or whole[1] then -- also records of 0 permits
    local PAGE = 100 -- records in one ZREM: unpack puts them all on the stack of Lua, which is bounded
    if part then
      -- include parts/put.lua
      -- include parts/packed.lua
      put(l, l.records('ZSCORE', part), packed(part, found.rest))
      l.records('ZREM', part)
    end
    for i = 1, #whole, PAGE do
      l.records('ZREM', unpack(whole, i, math.min(i + PAGE - 1, #whole)))
    end
    l.value = math.min(l.rate, l.value + found.given)
    -- include parts/oldest.lua
    setOldest(l, l.records('ZRANGE', l.gone, l.gone, 'WITHSCORES'))
  end
end
