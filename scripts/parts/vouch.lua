-- vouch.lua: how a call of a Group vouches for the own value of a PER_CLIENT limiter (rebuild.lua).

-- vouch notes in the session of the Client for which rate the value is right from now on. If there is no such
-- session, it creates one with the request number 0, so that the next call need not rebuild the value.
local function vouch(l, client)
  if l.own then
    local entry = string.match(l.hash('HGET', client) or '', '^(%d+ %d+ %-?%d+ %d+)')
      or string.format('%016d %d 0 0', 0, l.now)
    l.hash('HSET', client, string.format('%s %d', entry, l.rate))
  end
end
