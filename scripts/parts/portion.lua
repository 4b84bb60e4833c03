-- portion.lua: finds how much of the limit this Client may take while others wait, too. A Client that has
-- taken its portion leaves the rest to them for a moment (acquire.lua).
--
-- The field `waiting` says who waits for how many permits: for each Client its session, the permits that all
-- its callers in line want, and until when this counts: an interval and a second after it was refused last.
-- So a portion follows the numbers of those who wait. It is a hint: without it, who comes first takes what
-- is there.
--
-- ARGV[2]   the session of this Client
-- ARGV[14]  the permits that its callers in line want; those that it was granted in the last interval; those
--           that it has left to others and nobody has taken. Missing or empty if none of them stood in line
--           lately, or one of the callers of this call cannot wait, for that one takes what is there. So all
--           runs stand in line, and how many permits were granted (held) says to whom
--
-- in:       held, rate, value, interval, now, MOST
-- out:      quota (the permits that callers in line may take; nil without a bound), wants (nil if nobody
--           stood in line), crowd (who waits besides, as in the field), mine (until when what the field says
--           of this Client counts, 0 if that is not what it wants now)
-- changes:  none
-- writes:   no
-- ends the script: no

local quota, wants, crowd, mine = nil, nil, {}, 0
if ARGV[14] and not held then
  local holds, left
  wants, holds, left = string.match(ARGV[14], '^(%d+) (%d+) (%d+)$')
  if wants then
    local LONGEST = 8000 -- bytes: about 190 Clients
    local text = string.sub(redis.call('HGET', KEYS[1], 'waiting') or '', 1, LONGEST)
    local others, noted, till = 0, nil, 0
    for who, n, at in string.gmatch(text, '(%S+) (%d+) (%d+);') do
      local counts = tonumber(at) or 0
      if who == ARGV[2] then
        noted, till = n, counts
      elseif counts > now and counts <= now + interval + 1000 then
        others = others + (tonumber(n) or 0)
        crowd[#crowd + 1] = who .. ' ' .. n .. ' ' .. at .. ';'
      end
    end
    -- Others leave no more than the portion, so a request for more would never be granted. The portion of a
    -- Client that holds nothing is at least its first request: it says that it wants as much.
    local first = tonumber(ARGV[15]) or tonumber(ARGV[4])
    local least = math.min(MOST, math.ceil(first * others / math.max(1, rate - first)))
    if tonumber(holds) == 0 and first <= rate and least > tonumber(wants) then
      wants = string.format('%d', least)
    end
    mine = noted == wants and till or 0
    if others > 0 then
      local part = wants / (wants + others)
      local portion = math.max(1, math.floor(rate * part))
      quota = math.max(0, portion - holds) + math.ceil(math.min(left, value) * part)
    end
  end
end
