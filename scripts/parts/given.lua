-- given.lua: writes a given rate (read.lua).

-- setGiven writes the rate.
local function setGiven(l)
  l.hash('HSET', 'rate', string.format('%d', l.rate), 'interval', string.format('%d', l.interval),
    'type', l.own and '1' or '0', 'keepAliveTime', string.format('%d', l.alive))
  if l.endless then
    l.hash('PERSIST') -- lifetime.lua does so for the other keys
  end
end
