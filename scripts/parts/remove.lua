-- remove.lua: removes the records that find.lua found, and puts the value right. If no other record counts,
-- it leaves the removal to finish.lua (l.away), which says why.

-- remove removes the records in the result of find.
local function remove(l, found)
  local whole, part = found.whole, found.part
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
