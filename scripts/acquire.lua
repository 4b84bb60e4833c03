-- acquire.lua: judges requests in order of arrival, each by the permits that earlier requests left, and
-- writes one record for all permits that it grants.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua; ARGV[9..11]: parts/withdraw.lua
-- ARGV[3]    the number of the request; within a session the numbers only grow
-- ARGV[4]    the permits of all requests together
-- ARGV[5]    records that hold as many permits, as few as possible, end to end
-- ARGV[7]    if a copy of this call may have reached the server before: the ms since it was first sent
-- ARGV[8]    1 if a caller asks for numbers
-- ARGV[12]   the ms of a slot of time. All grants in a slot, by whichever client, share one record, dated by
--            the end of the slot: so permits come back up to a slot later, never earlier. Missing or 0: every
--            call writes its own record. Below 0: minus the ms of a lease, whose record is dated by its end
-- ARGV[13]   the given rate (parts/read.lua); missing or empty where a rate must be set
-- ARGV[14]   missing or empty if no caller of this Client stood in line lately (parts/portion.lua)
-- ARGV[15..] missing for a single request. Otherwise runs of equal requests: for each run the permits of one
--            request, and how many requests there are. That number is negative for requests that stand in
--            line: once one of them is refused, all requests behind it are refused
-- Reply:     if no caller asks for numbers, the value was right, and no rate is replaced: 0 when all are
--            granted; for a single request that is refused, without ARGV[14], the us until its permits are
--            there. In all other cases parts/numbers.lua, with two answers for each run; to its first number
--            this script adds 4 if some permits are left to Java, and, if those that Java holds were counted
--            (parts/portion.lua), 8 times one more than they are
--
-- The first half (parts/common_case.lua and first_call.lua) decides most calls and ends the script. The
-- second half is the general case: read (reads and checks) - withdraw (takes back) - judge - take (session,
-- records) - finish (value, time to live, removals). Its functions are the files of parts; each includes
-- those that it calls. A new argument goes before the runs; then RUNS changes, and argRuns in request.go.

-- include parts/common_case.lua
-- include parts/first_call.lua
-- include parts/common.lua
-- include parts/keys.lua
-- include parts/read.lua
-- include parts/late.lua
-- include parts/take.lua
-- include parts/finish.lua
local RUNS = 15 -- where the runs begin in ARGV
local given = ARGV[13] ~= '' and ARGV[13] or nil
local l = newLimiter(hash, text, records, seen)
local err = read(l, ARGV[1], ARGV[2], given, seen)
if err then
  return err
end
local r = { number = ARGV[3], all = tonumber(ARGV[4]), text = ARGV[4], records = ARGV[5],
  slot = tonumber(ARGV[12] or '') or 0, given = given }
local lone, asked, resent = not ARGV[RUNS], ARGV[8] == '1', (ARGV[7] or '') ~= ''
local withdraws, unfinished = (ARGV[9] or '') ~= '', false
local done = lateness(l, r.number, withdraws)
if withdraws then
  -- include parts/withdraw.lua
  unfinished = withdraw(l, done, r.records)
end
setStamp(l, r)
local held, share = done.held, nil
if (ARGV[14] or '') ~= '' and not held then
  -- include parts/portion.lua
  share = portion(l, ARGV[14], tonumber(ARGV[RUNS]) or r.all)
end

-- taken    the permits granted by this call. If permits are back at once (l.free), the value stays as it is,
--          and taken is 0
-- answers  nil when all requests are granted. Otherwise two numbers for each run (parts/judge.lua)
-- again    nothing is granted yet, and the client must send the call again, for one of these reasons:
--          1. Not all requests can be granted, and some expired records still count. The next call
--             removes more of them. So a call that lacks permits for a request has counted all of them.
--          2. More than MANY records have expired. They are removed all at once (parts/finish.lua), and a new
--             record must not be among them.
--          3. More permits are to be withdrawn than one call can find.
--          4. The name of a reservation is taken (parts/name_taken.lua).
-- idle     nothing is to be written: every request wants more than the rate
local taken, answers, idle = 0, nil, false
local again = not held
  and (unfinished or l.dead > MANY or l.more and r.all > l.value and not (lone and r.all > l.rate))
if lone and not (held or again) then
  -- include parts/name_taken.lua
  again = nameTaken(l, r)
end
if again then
  answers = {}
elseif not held and r.all <= l.value and not l.free and r.all <= (share and share.quota or r.all) then
  taken = r.all
else
  -- include parts/judge.lua
  local call = { held = held, late = done.late, quota = share and share.quota, paced = share and share.paced,
    beside = share and share.beside, stamp = r.stamp, asked = asked, sums = {} }
  taken, answers, idle = judge(l, call, RUNS, r.all)
end

local reply
local writes = not idle or withdraws or resent or l.unseen
l.replaces = l.replaces and writes
if not asked and l.drift == 0 and not l.replaces then
  if not answers then
    reply = 0
  elseif lone and not share and answers[2] and answers[2] > 0 then
    reply = answers[2]
  end
end
if not reply then
  -- include parts/numbers.lua
  reply = numbers(l, asked, again, answers, taken, r.stamp)
  if share then
    reply[1] = reply[1] + (share.beside and 4 or 0) + (share.java and 8 * (1 + share.java) or 0)
  end
end
if not writes then
  return reply
end

-- The session is also written when nothing is granted, in three cases: the call was sent again, and its
-- first copy may still come; the call withdraws permits, and copies of the requests that took them may still
-- come; or the session has not seen the check (parts/unseen.lua).
local notes = not held and not again and (taken > 0 or withdraws or resent or l.unseen)
finish(l, take(l, r, taken, notes))
if share and answers then
  -- include parts/waiting.lua
  noteWaiting(l, share)
end
return reply
