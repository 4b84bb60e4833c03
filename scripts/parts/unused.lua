-- unused.lua: what a settlement changes. The records of a reservation tell whether it was settled before,
-- perhaps by another process. Settled to less, they are gone, or hold fewer permits. Settled to more, they
-- stay, under names of their own, and other records hold the permits beyond them.

-- include parts/remove.lua

-- unused returns what settleRecords is to change, and the permits to be taken. s has the records of the
-- reservation, the permits that they hold (reserved), and those of them that go back (free); of a lease also
-- the ms since it was last used (idle). r is the request for the permits beyond them (take.lua).
local function unused(l, s, r)
  local found = { given = 0, whole = {}, part = nil, rest = 0, used = {} }
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
    elseif found.given < s.free and (tonumber(at) or math.huge) > l.expired then
      local n = count(member)
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
  for i = 1, #found.used do
    local member = found.used[i]
    l.records('ZADD', l.records('ZSCORE', member), renamed(member))
    l.records('ZREM', member)
    if l.head[1] == member then
      l.head[1] = renamed(member)
    end
  end
  if found.given > 0 then
    remove(l, found)
    redis.pcall('PUBLISH', s.channel, 'changed')
  end
end
