-- waiting.lua: tells other Clients that callers of this Client wait.

-- noteWaiting notes that callers of this Client wait, so that other Clients leave them a portion. A note is
-- valid until an interval and a second from now, and a call renews it only if it is half a second old.
local function noteWaiting(l, p)
  local LIFE, OLD = 1000, 500 -- ms beyond an interval
  if p.mine < l.now + l.interval + OLD then
    local till = string.format('%d', l.now + l.interval + LIFE)
    p.crowd[#p.crowd + 1] = l.field .. ' ' .. p.wants .. ' ' .. till .. ';'
    l.hash('HINT', 'waiting', table.concat(p.crowd)) -- a hint: a server without memory skips it
  end
end
