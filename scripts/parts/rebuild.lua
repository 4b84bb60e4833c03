-- rebuild.lua: the own value of a PER_CLIENT limiter, for a call whose session is not that of the Client. The
-- session of the Client vouches for the value: other sessions do not know which session wrote it last.

-- rebuild rebuilds the value, unless the session of the Client vouches for it. If that session names the rate
-- of the old value, an estimate (outstanding.lua) does not raise the value above the old one. If it names
-- the rate of now, an estimate does not lower it either: one that is too low would stay. A value above what
-- this many records allow is never kept.
local function rebuild(l, client)
  if not l.own then
    return
  end
  local entry = l.hash('HGET', client) or ''
  local vouched = tonumber(string.match(entry, '^%d+ %d+ %-?%d+ %d+ (%-?%d+)$') or '')
  if vouched ~= l.rate then
    -- include parts/outstanding.lua
    l.value = l.rate - outstanding(l, l.gone)
  end
  local left = vouched and l.stored and l.records('ZCARD') - l.gone or 0
  if left > MANY then
    local kept = l.stored + l.back + l.rate - vouched
    local right = vouched == l.rate and kept <= l.rate - left and not l.afresh
    l.value = right and kept or math.min(l.value, kept)
  end
end
