-- acquire.lua: judges requests in the order in which they came, each by what those before it left, and
-- writes one record for all that it grants.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua; ARGV[3], ARGV[9..11]:
-- parts/withdraw.lua
-- ARGV[4]    the permits of all requests together
-- ARGV[5]    records that hold as many, as few as can, one behind the other
-- ARGV[7]    the ms since this request was first sent, if it may have reached the server before
-- ARGV[8]    1 if it asks for numbers
-- ARGV[12]   the ms of a slot of time: all that is granted in it is one record, whoever grants it, with the
--            time of its end; so permits come back up to that later, never earlier. Missing or 0 for a record
--            for each call
-- ARGV[13..] where there is more than one request: runs of equal ones, of each its permits and how many they
--            are; negative for those that stand in line: once one of them is refused, so are all behind it
-- Reply:     where nobody asks for numbers, 0 when all are granted, and for a lone request that is refused the
--            us until its permits are there; otherwise parts/numbers.lua, with two answers for each run
--
-- When a call is sent again and was granted permits before (held), its requests are judged by those and get
-- the answers that they got then: what was left over was too little for each that was refused, and still is
-- without it. When one that came after it was here, it is a late copy that nobody waits for: it gets nothing.

-- The way of a call: limiter (reads and checks) - withdraw (takes back) - judge - session (the first that is
-- written) - put (records) - finish (value, life, what is removed). A line `-- include FILE` stands for the file,
-- which sees all locals. A new argument goes before the runs; then RUNS changes, here and in request.go.

-- include parts/limiter.lua
-- include parts/withdraw.lua
local RUNS = 13
local all, lone, asked = tonumber(ARGV[4]), not ARGV[RUNS], ARGV[8] == '1'
local resent = ARGV[7] and ARGV[7] ~= ''
local held = late and (last == ARGV[3] and amount or 0) -- false if it was not here; 0 also for a late copy

-- The time to write records with; size is that of a record, 21 bytes at the most.
local stamp, slot, size = now, ARGV[12] and tonumber(ARGV[12]) or 0, #ARGV[5]
if all > 4294967295 then -- it takes more than one record
  size = size / math.ceil(all / 4294967295)
end
if slot > 0 then
  slot = math.max(1, math.min(interval, slot))
  stamp = math.ceil(now / slot) * slot
  if keep > 0 then -- permits come back later by up to a slot, and a limiter lives longer than that
    keep = math.max(keep, interval + slot + 1000)
  end
end

-- taken    the permits that are granted now
-- answers  for each run: how many are granted, from the first on, and the us until the permits of the next
--          one are there, 0 if it was refused for its place in line, -1 if they never can be, below that minus
--          the us until it may look again (parts/due.lua). nil when all are granted
-- again    nothing is granted yet: ask again. Not all can be, and some expired records still count, which they
--          will not then, so that a call that grants anything has judged everything. Or so many have expired
--          that they go all at once, and a new one must not be among them (parts/finish.lua). Or more is to be
--          withdrawn than a call can do
-- idle     there is nothing to write, for all want more than the rate
-- Where what is taken is back at once (free), nothing is taken from the value.
local taken, answers, idle = 0, nil, false
local again = not held and (unfinished or gone > MANY or more and all > value and not (lone and all > rate))
if again then
  answers = {}
elseif not held and all <= value and not free then
  taken = all
else
  local refused, spent, sums = false, 0, {}
  answers, idle = {}, true
  for run = RUNS, math.max(RUNS, #ARGV), 2 do
    local n, many = tonumber(ARGV[run]) or all, tonumber(ARGV[run + 1]) or 1
    local inline, granted, wait = many < 0, 0, -1
    if n <= rate or held and n <= held - spent then
      idle, wait, many = false, 0, math.abs(many)
      for _ = 1, 4 do -- what fits, a value put right by due.lua, what fits then, the time of the next one
        if granted == many or wait ~= 0 or (inline and refused) then
          break
        end
        local fit = free and many or math.min(many - granted, math.floor(((held or value) - spent) / n))
        if fit > 0 then
          granted = granted + fit
          spent = free and 0 or spent + fit * n
          taken = held and 0 or spent
        elseif held and n <= value then
          wait = 1 -- it may look again at once
        else
          -- include parts/due.lua
        end
      end
      refused = refused or (inline and granted < many)
    end
    answers[#answers + 1] = granted
    answers[#answers + 1] = wait
  end
end

local brief
if not asked then
  if not answers then
    brief = 0
  elseif lone and answers[2] and answers[2] > 0 then
    brief = answers[2]
  end
end
local reply = brief
if not brief then
  -- include parts/numbers.lua
end
if idle and not (withdraws or resent) then
  return reply
end

local step
do
  local text = string.format('%d', now)
  local at = stamp == now and text or string.format('%d', stamp)

  -- A request that was sent again leaves its number also where it is refused, for its first copy may still come,
  -- and so does one that withdraws, for those that it withdraws may.
  if not held and not again and (taken > 0 or withdraws or resent or own and not known) then
    local took = taken == all and ARGV[4] or string.format('%d', taken)
    -- include parts/session.lua
  end

  if taken > 0 then
    local left, extra = taken, nil
    -- The record of the slot; of several, for one holds no more than 2^32 permits, the least. Where all that
    -- count are about to go (away), it is none of those.
    if slot > 0 and not away then
      local there = redis.call('ZRANGEBYSCORE', KEYS[3], at, at, 'LIMIT', '0', '1000')
      local kind = string.sub(ARGV[5], 1, size - 8)
      for i = 1, #there do
        if #there[i] == size and string.sub(there[i], 1, size - 8) == kind then
          extra = extra and count(extra) <= count(there[i]) and extra or there[i]
        end
      end
    end
    for from = 1, #ARGV[5], math.max(1, size) do
      local member = size == #ARGV[5] and ARGV[5] or string.sub(ARGV[5], from, from + size - 1)
      local n = left <= 4294967295 and left or 4294967295
      local inSlot, replaced = extra and count(extra) or 4294967296, nil
      if n + inSlot <= 4294967295 then
        member, replaced, extra = packed(member, n + inSlot), extra, nil
      elseif taken < all then
        member = packed(member, n)
      end
      -- include parts/put.lua
      if replaced then -- after the new one is there
        redis.call('ZREM', KEYS[3], replaced)
      end
      left = left - n
      if left == 0 then
        break
      end
    end
    step = value == stored and taken == all and '-' .. ARGV[4] or nil
    value = value - taken
  end
end
-- include parts/finish.lua
