-- unused.lua: what a settlement changes. The records of a reservation tell whether it was settled before,
-- perhaps by another process. Settled to less, they are gone, or hold fewer permits. Settled to more, they
-- stay, under names of their own, and other records hold the permits beyond them.
--
-- While versions with different intervals take turns (span.lua), records may count for another version only.
-- Permits come back out of these as well, but the value of now does not have them.

-- include parts/remove.lua

-- unused returns what settleRecords is to change, and the permits to be taken. s has the records of the
-- reservation, the permits that they hold (reserved), and those of them that go back (free); of a lease also
-- the ms since it was last used (idle). r is the request for the permits beyond them (take.lua).
local function unused(l, s, r)
  local found = { given = 0, whole = {}, part = nil, rest = 0, used = {}, foreign = false }
  local size = #s.records / math.max(1, math.ceil(s.reserved / FULL))
  local settled = r.all > 0 and l.records('ZSCORE', string.sub(r.records, 1, r.size))
  for from = #s.records - math.max(1, size) + 1, 1, -math.max(1, size) do
    local member = string.sub(s.records, from, from + size - 1)
    local at = l.records('ZSCORE', member)
    if r.all > 0 then
      if not (settled or at) then
        settled = l.records('ZSCORE', renamed(member))
      end
      found.used[#found.used + 1] = at and member or nil
    elseif not at then
      break -- the last record goes first, so the reservation is settled
    elseif found.given < s.free and (tonumber(at) or math.huge) > l.now - l.span then
      local n = count(member)
      found.foreign = (tonumber(at) or math.huge) <= l.expired
      if found.given + n > s.free then
        found.part, found.rest, found.given = member, found.given + n - s.free, s.free
      else
        found.given = found.given + n
        found.whole[#found.whole + 1] = member
      end
    end
  end
  return found, settled and 0 or r.all
end

-- settleRecords removes records, and renames those that are used up. The record of a lease is dated back
-- first: no copy of the call finds it under the same name later, or dates it further back.
local function settleRecords(l, found, s)
  local leased = s.idle and not found.whole[1] and l.records('ZSCORE', found.part or s.records)
  if leased then
    local at = math.min(tonumber(leased), math.max(l.expired + 1, l.now - s.idle))
    l.records('ZADD', string.format('%d', at), found.part or s.records)
    -- include parts/oldest.lua
    setOldest(l, l.records('ZRANGE', l.gone, l.gone, 'WITHSCORES'))
  end
  -- include parts/put.lua
  for i = 1, #found.used do
    local member = found.used[i]
    local name = put(l, l.records('ZSCORE', member), renamed(member))
    l.records('ZREM', member)
    if l.head[1] == member then
      l.head[1] = name
    end
  end
  if found.foreign then -- all of them, for they have one time
    l.away, l.gone = found.whole, l.gone - #found.whole
    if found.part then
      -- include parts/packed.lua
      put(l, l.records('ZSCORE', found.part), packed(found.part, found.rest))
      l.away[#l.away + 1] = found.part
    end
  elseif found.given > 0 then
    remove(l, found)
  end
  if found.given > 0 then
    redis.pcall('PUBLISH', s.channel, 'changed')
  end
end
