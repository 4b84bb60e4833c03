-- judge.lua: judges requests in the order of their arrival, each by the permits that earlier ones left.
--
-- The runs are those of ARGV (acquire.lua). A call that was carried out before and is sent again (held) is
-- judged by the permits that it was granted, and so gets its first reply: the permits left over then were too
-- few for each refused request, and still are. If a later call of the session was carried out, this one is a
-- late copy that no caller waits for, and gets nothing.

-- include parts/due.lua

-- left returns the permits that requests may have; for a call that was carried out before, its own grant.
local function left(l, b)
  return (b.held or l.value) - b.spent
end

-- judgeRun judges a run of many requests for n permits each. b is the call so far: held and late (late.lua),
-- quota, paced and beside (portion.lua), stamp and asked (due.lua); spent, the permits granted; sums
-- (due.lua); and refused, if a request in line was refused. It returns how many of the requests are granted,
-- from the first on, and about the first that is not: the us until its permits are there; 0 if it was refused
-- for its place in line; below -1, minus the us until it may look again (due.lua, portion.lua).
local function judgeRun(l, b, n, many, inline)
  -- us for other Clients, at most a 20th of an interval; for Java, whose timer may be 100 ms late, at most
  -- half of one; or until the next burst: portion.go
  local TURN, PART, LATE, HALF, BURST = 40000, 50, 110000, 500, 125
  local granted, wait = 0, 0
  for _ = 1, 4 do -- grant what fits; due corrects the value; grant again; due computes the wait
    if granted == many or wait ~= 0 or (inline and b.refused) then
      break
    end
    local fit = l.free and many or math.min(many - granted, math.floor(left(l, b) / n))
    local shy = b.quota and fit * n > b.quota
    if shy then
      fit = math.floor(b.quota / n)
    end
    if fit > 0 then
      granted = granted + fit
      b.spent = l.free and 0 or b.spent + fit * n
      b.quota = b.quota and b.quota - fit * n
    elseif shy then
      -- include parts/ends.lua
      local pause = b.beside and math.min(LATE, HALF * l.interval) or math.min(TURN, PART * l.interval)
      pause = b.paced and math.min(MOST, BURST * l.interval) or pause
      wait = -math.max(2, math.min(pause, endsIn(l) * 1000))
    elseif b.held and n <= l.value then
      wait = b.late
    else
      wait = due(l, n, b.held and 0 or b.spent, b.stamp, b.sums, b.asked)
    end
  end
  return granted, wait
end

-- judge judges the runs that begin at ARGV[from], or one request for all permits. It returns the permits
-- that are taken: 0 for a call that was carried out before, or if permits are back at once (l.free); two
-- answers for each run, as judgeRun has them, or -1 as the second if it can never be granted; and whether
-- nothing is to be written: every request wants more than the rate.
--
-- If a call that was carried out before does not get all its permits, the rate has grown since: a request
-- that was above it, and kept no other ones back, is refused now. So the second turn lets requests for more
-- than the call holds keep none back.
local function judge(l, b, from, all)
  local answers, idle
  for turn = 1, 2 do
    answers, idle, b.spent, b.refused = {}, true, 0, false
    for run = from, math.max(from, #ARGV), 2 do
      local n, many = tonumber(ARGV[run]) or all, tonumber(ARGV[run + 1]) or 1
      local inline, granted, wait = many < 0, 0, -1
      if n <= l.rate or b.held and n <= b.held - b.spent then
        idle, many = false, math.abs(many)
        granted, wait = judgeRun(l, b, n, many, inline)
        b.refused = b.refused or (inline and granted < many and not (turn == 2 and n > b.held))
      end
      answers[#answers + 1] = granted
      answers[#answers + 1] = wait
    end
    if not b.held or b.spent == b.held then
      break
    end
  end
  return b.held and 0 or b.spent, answers, idle
end
