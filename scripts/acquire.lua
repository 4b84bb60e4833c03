-- acquire.lua: judges requests in order of arrival, each by the permits that earlier requests left, and
-- writes one record for all permits that it grants.
--
-- KEYS[1]    NAME             hash: rate, interval, type, keepAliveTime; and a field for each session
-- KEYS[2]    {NAME}:value     string: the permits that are left, a cache of rate - outstanding
-- KEYS[3]    {NAME}:permits   sorted set: a record for each grant, scored with its time; this is the truth
--            (for PER_CLIENT the last two end in :ID)
-- ARGV[1]    the type whose keys these are: 0 OVERALL, 1 PER_CLIENT
-- ARGV[2]    the session: a field of the hash that is the Client's own
-- ARGV[3]    the number of the request; within a session the numbers only grow
-- ARGV[4]    the permits of all requests together
-- ARGV[5]    records that hold as many permits, as few as possible, end to end
-- ARGV[6]    now in ms; missing or empty for the time of the server
-- ARGV[7]    if a copy of this call may have reached the server before: the ms since it was first sent
-- ARGV[8]    1 if a caller asks for numbers
-- ARGV[9]    1 if heal.lua was called for this call
-- ARGV[10]   the given rate (parts/plain.lua); missing or empty where a rate must be set
-- ARGV[12]   minus the ms of a lease, whose record is dated by its end; missing, empty or 0 for none
-- ARGV[14]   missing or empty if no caller of this Client stood in line lately (parts/portion.lua)
-- ARGV[15..] missing for a single request. Otherwise runs of equal requests: for each run the permits of one
--            request, and how many requests there are. That number is negative for requests that stand in
--            line: once one of them is refused, all requests behind it are refused
-- Reply:     {1} if nothing was judged: heal.lua is to be called first, or the name of a record is taken.
--            If no caller asks for numbers, the value was right, and no rate is replaced: 0 when all are
--            granted; for a single request that is refused, without ARGV[14], the us until its permits are
--            there. In all other cases {2 if a given rate replaces another, and 4 more if some permits are
--            left to Java, and, if those that Java holds were counted, 8 times one more than they are;
--            rate; permits left, may be negative; ms until all permits are back, without those granted now,
--            or 0 if all are granted and no record lies ahead; the same with them; the interval in ms; the
--            permits by which the value was wrong; and two answers for each run: how many of its requests are
--            granted, from the first on, and about the first that is not: the us until its permits are there;
--            0 if it was refused for its place in line; -1 if they never are; below -1, minus the us until it
--            may look again}. The two times are 0 if no caller asks for them
-- Errors:    NOTINIT and OTHERTYPE (the limiter has the other type: send the script again with its keys). A
--            script that replies one of these has written nothing

-- include parts/common_time.lua
local RUNS, FULL = 15, 4294967295 -- where the runs begin; the permits of a record: it has four bytes for them
local kind, number, all, given = ARGV[1], ARGV[3], tonumber(ARGV[4]), ARGV[10] or ''
local resent, asked, healed = (ARGV[7] or '') ~= '', ARGV[8] == '1', ARGV[9] == '1'
local lease, timed = ARGV[12] and -(tonumber(ARGV[12]) or 0) or 0, at ~= ARGV[6]
local lone, member, summed, pages = not ARGV[RUNS], 1, 0, 0
-- include parts/plain.lua

-- include parts/late.lua
local share = nil
if (ARGV[14] or '') ~= '' and not held then
  -- include parts/portion.lua
end

local ttl = keep <= 0 and not endless and redis.call('PTTL', KEYS[1]) or -1
local ends = ttl >= 0 and (ttl + 1) * 1000 or MOST -- us; it expires in the ms after the last one
local quota, spent, used, refused, idle, whole = share and share.quota, 0, 0, false, not held, true
local answers, walked = nil, nil
-- If a call that was carried out before does not hold permits for all its requests, the rate has grown since:
-- a request that was above the rate held back none behind it, and is now refused. So in the second turn,
-- requests for more than the call holds hold back none.
for turn = 1, held and 2 or 1 do
  used, refused, whole = 0, false, true
  for run = RUNS, lone and RUNS or #ARGV, 2 do
    local n, many = lone and all or tonumber(ARGV[run]), lone and 1 or tonumber(ARGV[run + 1])
    local inline, granted, wait = many < 0, 0, 0
    many = inline and -many or many
    local judged = not inline or not refused
    if n <= rate and interval <= 0 then
      granted = many
    elseif held and judged then
      granted = math.min(many, math.floor((held - used) / n))
      used = used + granted * n
    elseif judged and not held and n <= rate and n <= value - spent then
      local room = n * many <= value - spent and many or math.floor((value - spent) / n)
      granted = room
      if quota then
        granted = math.min(room, math.floor(quota / n))
        quota = quota - granted * n
      end
      spent = spent + granted * n
      if granted < room then -- the rest is left to other Clients, or Java
        -- us for other Clients, at most a 20th of an interval; for Java, whose timer may be 100 ms late, at
        -- most half of one; or until the next burst: portion.go
        local TURN, PART, LATE, HALF, BURST = 40000, 50, 110000, 500, 125
        wait = share.beside and math.min(LATE, HALF * interval) or math.min(TURN, PART * interval)
        wait = share.paced and math.min(MOST, BURST * interval) or wait
        wait = -math.max(2, math.min(wait, ends))
      end
    end
    idle = idle and n > rate
    if granted < many then
      whole = false
      if n > rate then
        wait = -1
      elseif not judged then
        wait = 0
      elseif held and n <= value then
        wait = later
      elseif wait == 0 then
        -- include parts/until.lua
      end
      refused = refused or inline and n <= rate and (turn == 1 or n <= held)
    end
    if granted < many or not lone then
      answers = answers or {}
      answers[run - RUNS + 1], answers[run - RUNS + 2] = granted, wait
    end
  end
  if used == held then
    break
  end
end
local reset, passed = 0, whole and spent > 0
-- include parts/newest.lua
local taken, took, entry = held and 0 or spent, nil, nil
local after = asked and taken > 0 and math.max(reset, lease + interval) or reset
local writes, stamp = not idle or resent, lease == 0 and at or string.format('%d', now + lease)
if taken > 0 then
  local size, left, added = all <= FULL and #ARGV[5] or #ARGV[5] / math.ceil(all / FULL), taken, {}
  for from = 1, #ARGV[5], math.max(1, size) do
    local record = all <= FULL and ARGV[5] or string.sub(ARGV[5], from, from + size - 1)
    if taken < all then
      -- include parts/packed.lua
      record = packed(record, math.min(left, FULL))
    end
    if redis.call('ZADD', KEYS[3], 'NX', stamp, record) == 0 then
      for i = 1, #added do
        redis.call('ZREM', KEYS[3], added[i])
      end
      return { member } -- its name is taken
    end
    left = left - FULL
    if left <= 0 then
      break
    end
    added[#added + 1] = record
  end
end
if held and later == 1 then -- WAIT counts the writes of its own connection, not those of a copy's
  entry = f[5]
elseif not held and (taken > 0 or resent or look) then -- the first copy may still come; it notes the look
  took = taken == all and ARGV[4] or string.format('%d', taken)
  entry = number .. ' ' .. at .. ' ' .. took .. ' ' .. stamp .. (own and string.format(' %d', rate) or '')
end
if writes then
  -- include parts/write.lua
  if share and not whole then
    -- include parts/waiting.lua
  end
end

replaces = replaces and writes
if not asked and drift == 0 and not replaces then
  if whole then
    return 0
  elseif lone and not share and answers[2] > 0 then
    return answers[2]
  end
end
local flags = (replaces and 2 or 0)
if share then
  flags = flags + (share.beside and 4 or 0) + (share.java and 8 * (1 + share.java) or 0)
end
local most = ends / 1000
local reply = { flags, rate, value - taken, math.min(reset, most), math.min(after, most), interval, drift }
for i = 1, whole and 0 or #answers do
  reply[7 + i] = answers[i]
end
return reply
