-- portion.lua: how much of the limit this Client may take beside other Clients that wait, and Java. A
-- Client that has taken its portion leaves the rest to them for a moment (judge.lua).
--
-- The field `waiting` names the Clients with waiting callers: for each Client its session, the permits that
-- all its callers in line want, and until when this counts: an interval and a second after it was refused
-- last. So portions follow the numbers of waiting callers. The field is a hint: without it, the first
-- caller takes the permits that are there.
--
-- Java does not say how many of its callers wait. It counts as one more Client, which wants as much as the
-- others on average, but no more than twice what it took lately. So it has its share two or three intervals
-- after it has come, and Clients of Go have theirs soon after it has gone. While it takes nothing, it is left
-- a bit now and then.
--
-- ARGV[14]  the permits that the callers of this Client in line want; those that it was granted in the last
--           interval; those that it has left and that are still there; those that it was granted
--           in the last eighth of an interval; those that Java took lately, or - if no Java client uses the
--           limiter; 1 to count these (java.lua). Missing or empty if none of its callers stood in line
--           lately, or if a caller of this call does not wait, because such a caller takes the permits that
--           are there. So with ARGV[14] all runs stand in line, and the number of permits that were granted
--           (held) tells which requests got them

-- otherWaiters returns the permits that other Clients want, and how many of them are of Clients whose
-- sessions come first in order; their entries in the field; then the permits that this Client wants by the
-- field (a text, or nil), and until when that counts.
local function otherWaiters(l)
  local LONGEST = 8000 -- bytes: about 190 Clients
  local field = string.sub(l.hash('HGET', 'waiting') or '', 1, LONGEST)
  local others, ahead, crowd, noted, till = 0, 0, {}, nil, 0
  for session, n, at in string.gmatch(field, '(%S+) (%d+) (%d+);') do
    local counts = tonumber(at) or 0
    if session == l.field then
      noted, till = n, counts
    elseif counts > l.now and counts <= l.now + l.interval + 1000 then
      others = others + (tonumber(n) or 0)
      if session < l.field then
        ahead = ahead + (tonumber(n) or 0)
      end
      crowd[#crowd + 1] = session .. ' ' .. n .. ' ' .. at .. ';'
    end
  end
  return others, ahead, crowd, noted, till
end

-- portionOfJava returns the permits that belong to Java, which took some lately, beside Clients of Go: a
-- number that may have a fraction. turn counts the intervals.
local function portionOfJava(l, took, clients, turn)
  local LOOKS, LEAST, EVERY = 32, 0.16, 500 -- EVERY in ms
  local fair = l.rate / (clients + 1)
  if turn % LOOKS == 0 then -- it may have come, and want many permits at a time
    return fair
  end
  local looks = turn % math.ceil(EVERY / math.max(1, l.interval)) == 0
  return math.min(fair, 2 * took + (looks and math.max(LEAST, l.rate / LOOKS) or 0))
end

-- portion reads argument, which is ARGV[14], for a call whose first request is for first permits. It returns
--   quota   the permits that callers in line may take; nil without a bound
--   paced   quota is less than the portion leaves, and more of the portion may be taken soon
--   beside  some permits are left to Java
--   java    the permits that Java has taken; nil if they were not counted
--   wants   the permits that they want, a text
--   crowd   the entries of the other Clients in the field
--   mine    until when the entry of this Client counts, 0 if it wants another number now
local function portion(l, argument, first)
  local wants, holds, left, recent, took, counts =
    string.match(argument, '^(%d+) (%d+) (%d+) (%d+) (%S+) (%d)$')
  local others, ahead, crowd, noted, till = otherWaiters(l)
  -- Other Clients leave no more than the portion, so a request for more would never be granted. The portion
  -- of a Client that holds nothing is at least its first request: its entry says that it wants that many.
  local least = math.min(MOST, math.ceil(first * others / math.max(1, l.rate - first)))
  if tonumber(holds) == 0 and first <= l.rate and least > tonumber(wants) then
    wants = string.format('%d', least)
  end
  local p = { quota = nil, paced = false, beside = false, java = nil,
    wants = wants, crowd = crowd, mine = noted == wants and till or 0 }
  if counts == '1' then
    -- include parts/java.lua
    p.java = takenByJava(l)
  end
  took = tonumber(took)
  local turn = math.floor(l.now / math.max(1, l.interval))
  local part, java = 0, 0
  if took then
    took = math.max(took, p.java or 0)
    part = portionOfJava(l, took, #crowd + 1, turn)
    local GOLDEN = 0.6180339887 -- rounds up and down in turn
    java = math.floor(part + math.floor(turn / 2) * GOLDEN % 1)
  end
  local mine = (l.rate - part) * wants / (wants + others)
  local large = took and took > 0 and first > mine -- such a request would never be granted
  p.beside = java > 0 or large
  if others > 0 or p.beside then
    -- Rounded at both ends, in the order of the sessions, the portions of all add up to the rate.
    local each = (l.rate - java) / (wants + others)
    local whole = math.floor(each * (ahead + wants)) - math.floor(each * ahead)
    if large then -- a Client that holds nothing may take more in every other interval, and Java in the others
      whole = tonumber(holds) == 0 and turn % 2 == 0 and math.max(whole, first) or 0
    elseif not p.beside then
      whole = math.max(1, whole)
    end
    local due, pace = math.max(0, whole - holds), nil
    if not took or took == 0 then
      -- Permits taken at one moment come back at one moment, and the edge of a second then decides how many
      -- of them a Client got in it. So a Client takes half of its portion in an eighth of an interval, and a
      -- quarter if its callers want more than the portion, for some of them would wait for two whole
      -- intervals. From then on its permits come back apart. Beside Java, others would take what it leaves.
      local parts = tonumber(wants) > whole and 4 or 2
      local burst = math.max(first, math.ceil(whole / parts))
      pace = math.max(0, burst - recent)
    end
    p.paced = pace and pace < due or false
    local still = math.min(left, math.max(0, l.value))
    p.quota = math.min(due, pace or due) + math.ceil(still * wants / (wants + others))
  end
  return p
end
