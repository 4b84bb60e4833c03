-- portion.lua: how much of the limit this Client may take beside other Clients that wait, and Java. A
-- Client that has taken its portion leaves the rest to them for a moment (acquire.lua).
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
--           limiter; 1 to count these. Missing or empty if none of its callers stood in line
--           lately, or if a caller of this call does not wait, because such a caller takes the permits that
--           are there. So with ARGV[14] all runs stand in line, and the number of permits that were granted
--           (held) tells which requests got them
-- After it, share has
--   quota   the permits that callers in line may take; nil without a bound
--   paced   quota is less than the portion leaves, and more of the portion may be taken soon
--   beside  some permits are left to Java
--   java    the permits that Java has taken; nil if they were not counted
--   wants   the permits that callers of this Client want, a text
--   crowd   the entries of the other Clients in the field
--   till    until when the entry of this Client counts, 0 if it wants another number now

local LONGEST, EVERY = 8000, 500 -- bytes: about 190 Clients; ms
local LOOKS, LEAST, GOLDEN = 32, 0.16, 0.6180339887
local wants, holds, keeps, recently, took, counts =
  string.match(ARGV[14], '^(%d+) (%d+) (%d+) (%d+) (%S+) (%d)$')
local n = tonumber(ARGV[RUNS]) or all -- of the first request
local others, ahead, crowd, noted, till = 0, 0, {}, nil, 0
local field = string.sub(redis.call('HGET', KEYS[1], 'waiting') or '', 1, LONGEST)
for session, permits, time in string.gmatch(field, '(%S+) (%d+) (%d+);') do
  local ends, many = tonumber(time) or 0, tonumber(permits) or 0
  if session == ARGV[2] then
    noted, till = permits, ends
  elseif ends > now and ends <= now + interval + 1000 then
    others = others + many
    ahead = ahead + (session < ARGV[2] and many or 0)
    crowd[#crowd + 1] = session .. ' ' .. permits .. ' ' .. time .. ';'
  end
end
holds, took = tonumber(holds), tonumber(took)
-- Other Clients leave no more than the portion, so a request for more would never be granted. The portion
-- of a Client that holds nothing is at least its first request: its entry says that it wants that many.
local least = math.min(MOST, math.ceil(n * others / math.max(1, rate - n)))
if holds == 0 and n <= rate and least > tonumber(wants) then
  wants = string.format('%d', least)
end
share = { quota = nil, paced = false, beside = false, java = nil, wants = wants, crowd = crowd,
  till = noted == wants and till or 0 }
if counts == '1' then -- the outstanding permits, times the part of Java in the newest 100 records
  -- include parts/go.lua
  local java, sum, newest = 0, 0, redis.call('ZRANGE', KEYS[3], '-100', '-1')
  for i = 1, #newest do
    local permits = count(newest[i])
    sum, java = sum + permits, java + (ofGo(newest[i]) and 0 or permits)
  end
  local MUCH = 1099511627776 -- 2^40: the reply has room for that
  share.java = sum > 0 and math.min(MUCH, math.ceil(java / sum * math.max(0, rate - value))) or 0
end
local turn = math.floor(now / math.max(1, interval)) -- counts the intervals
local part, java = 0, 0
if took then
  took = math.max(took, share.java or 0)
  part = rate / (#crowd + 2)
  if turn % LOOKS ~= 0 then -- otherwise it may have come, and want many permits at a time
    local looks = turn % math.ceil(EVERY / math.max(1, interval)) == 0
    part = math.min(part, 2 * took + (looks and math.max(LEAST, rate / LOOKS) or 0))
  end
  java = math.floor(part + math.floor(turn / 2) * GOLDEN % 1) -- rounds up and down in turn
end
local large = took and took > 0 and n > (rate - part) * wants / (wants + others) -- it would never be granted
share.beside = java > 0 or large
if others > 0 or share.beside then
  -- Rounded at both ends, in the order of the sessions, the portions of all add up to the rate.
  local each = (rate - java) / (wants + others)
  local portion = math.floor(each * (ahead + wants)) - math.floor(each * ahead)
  if large then -- a Client that holds nothing may take more in every other interval, and Java in the others
    portion = holds == 0 and turn % 2 == 0 and math.max(portion, n) or 0
  elseif not share.beside then
    portion = math.max(1, portion)
  end
  local due = math.max(0, portion - holds)
  local quick = due
  if not took or took == 0 then
    -- Permits taken at one moment come back at one moment, and the edge of a second then decides how many
    -- of them a Client got in it. So a Client takes half of its portion in an eighth of an interval, and a
    -- quarter if its callers want more than the portion, for some of them would wait for two whole
    -- intervals. From then on its permits come back apart. Beside Java, others would take what it leaves.
    local burst = math.max(n, math.ceil(portion / (tonumber(wants) > portion and 4 or 2)))
    quick = math.min(due, math.max(0, burst - tonumber(recently)))
  end
  share.paced = quick < due
  share.quota = quick + math.ceil(math.min(tonumber(keeps), math.max(0, value)) * wants / (wants + others))
end
