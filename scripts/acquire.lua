-- acquire.lua: judges requests in the order of their arrival, each by what those before it left, and writes
-- one record for all that it grants.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua;
-- ARGV[3], ARGV[9..11]: parts/withdraw.lua
-- ARGV[4]    the permits of all requests together
-- ARGV[5]    records that hold as many permits, as few as possible, one behind the other
-- ARGV[7]    if a copy of this call may have reached the server before: the ms since it was first sent
-- ARGV[8]    1 if a caller asks for numbers
-- ARGV[12]   the ms of a slot of time. All grants in a slot, by whichever client, share one record, dated by
--            the end of the slot: so permits come back up to that later, never earlier. Missing or 0: every
--            call writes its own record
-- ARGV[13]   the given rate (parts/limiter.lua); missing or empty where a rate must be set
-- ARGV[14]   missing or empty if no caller of this Client stood in line lately (parts/portion.lua)
-- ARGV[15..] missing for a single request. Otherwise runs of equal requests: for each run the permits of one
--            request, and how many requests there are. That number is negative for requests that stand in
--            line: once one of them is refused, so are all behind it
-- Reply:     if no caller asks for numbers, and the value was right: 0 when all are granted; for a single
--            request that is refused, without ARGV[14], the us until its permits are there. In all other
--            cases parts/numbers.lua, with two answers for each run
--
-- A call that was carried out before and is sent again (held) is judged by the permits it was granted, and so
-- gets the reply of the first time: what those permits left over was too little for each request that was
-- refused, and still is. If a later call of the session was carried out, this one is a late copy that nobody
-- waits for, and gets nothing.
--
-- The order of a call: limiter (reads and checks) - withdraw (takes back) - judge - session (written before
-- what is granted) - put (records) - finish (value, time to live, removals) - waiting. An include line stands
-- for the text of the file, which sees all locals. A new argument goes before the runs; then RUNS changes,
-- and argRuns in request.go.

-- include parts/common.lua
local givenRate = ARGV[13] and ARGV[13] ~= '' and ARGV[13] or nil
-- include parts/limiter.lua
-- include parts/withdraw.lua
local RUNS = 15 -- where the runs begin in ARGV
local all, lone, asked = tonumber(ARGV[4]), not ARGV[RUNS], ARGV[8] == '1'
local resent = ARGV[7] and ARGV[7] ~= ''
local held = late and (last == ARGV[3] and amount or 0) -- false for a call that is new

-- include parts/stamp.lua
-- include parts/portion.lua

-- taken    the permits granted by this call. If permits are back at once (free), the value stays as it is,
--          and taken is 0
-- answers  nil when all requests are granted. Otherwise two numbers for each run. The first is how many of
--          its requests are granted, from the first on. The second is about the first that is not: the us
--          until its permits are there; 0 if it was refused for its place in line; -1 if it can never be
--          granted; below -1, minus the us until it may look again (parts/due.lua)
-- again    nothing is granted yet, and the client must send the call again, for one of these reasons:
--          1. Not all requests can be granted, and some expired records still count. They will not in the
--             next call. So a call that grants anything has judged by all of them.
--          2. More than MANY records have expired. They are removed all at once (parts/finish.lua), and a new
--             record must not be among them.
--          3. More is to be withdrawn than one call can do.
-- idle     nothing is to be written: every request wants more than the rate
local taken, answers, idle = 0, nil, false
local again = not held and (unfinished or dead > MANY or more and all > value and not (lone and all > rate))
if again then
  answers = {}
elseif not held and all <= value and not free and all <= (quota or all) then
  taken = all
else
  local refused, spent, sums = false, 0, {}
  answers, idle = {}, true
  for run = RUNS, math.max(RUNS, #ARGV), 2 do
    local n, many = tonumber(ARGV[run]) or all, tonumber(ARGV[run + 1]) or 1
    local inline, granted, wait = many < 0, 0, -1
    if n <= rate or held and n <= held - spent then
      idle, wait, many = false, 0, math.abs(many)
      for _ = 1, 4 do -- grant what fits; due.lua puts the value right; grant again; due.lua sets wait
        if granted == many or wait ~= 0 or (inline and refused) then
          break
        end
        local fit = free and many or math.min(many - granted, math.floor(((held or value) - spent) / n))
        local shy = quota and fit * n > quota
        if shy then
          fit = math.floor(quota / n)
        end
        if fit > 0 then
          granted = granted + fit
          spent = free and 0 or spent + fit * n
          taken = held and 0 or spent
          quota = quota and quota - fit * n
        elseif shy then
          local TURN, PART = 40000, 50 -- us for others, at most a 20th of an interval: leftFor in portion.go
          wait = -math.max(2, math.min(TURN, PART * interval))
        elseif held and n <= value then
          wait = late
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
if not asked and drift == 0 then
  if not answers then
    brief = 0
  elseif lone and not wants and answers[2] and answers[2] > 0 then
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

-- include parts/take.lua
-- include parts/finish.lua
-- include parts/waiting.lua
return reply
