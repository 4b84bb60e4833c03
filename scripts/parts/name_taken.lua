-- name_taken.lua: looks for records that have the names of new ones. put.lua gives a new record another name
-- then. That of a reservation or lease must keep it, so the Client sends the call again with other names.

-- nameTaken returns whether a request r (take.lua) makes a reservation or lease, and a name of it is taken.
local function nameTaken(l, r)
  -- include parts/reserved.lua
  if not (reserved(string.sub(r.records, 1, r.size)) or leased(r.records)) then
    return false
  end
  for from = 1, #r.records, math.max(1, r.size) do
    if l.records('ZSCORE', string.sub(r.records, from, from + r.size - 1)) then
      return true
    end
  end
  return false
end
