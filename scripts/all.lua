-- all.lua: takes permits from several limiters, from all of them or from none.
--
-- This is the script for one limiter. That for more is made of it (scripts.go): the text of each stands in
-- that of the one before it, so that each has locals of its own. They share the locals above JUDGE.
--
-- KEYS, ARGV[6]: parts/common.lua; ARGV[2], errors: parts/limiter.lua; ARGV[3]: parts/late.lua
-- ARGV[1], ARGV[4], ARGV[5], ARGV[13]  of the first limiter, as in acquire.lua: type, permits, records,
--            given rate. Those of the next ones stand in the same order from ARGV[15] on; KEYS go on, too
-- ARGV[7], ARGV[8], ARGV[12]  of all limiters, as in acquire.lua
-- ARGV[14]   the session that this Client uses for calls to a single limiter
-- Reply:     0 if all is granted, no caller asks for numbers and each value was right. Otherwise the numbers
--            of each limiter, as of a single request of acquire.lua, that of the last one first; all was
--            granted if each of them has granted. If one says that the call must be sent again, nothing was
--
-- ARGV[2] is a session that one call has for itself (sessions in groupcall.go): parts/rebuild.lua.

-- include parts/common.lua
local asked, resent = ARGV[8] == '1', ARGV[7] and ARGV[7] ~= ''
local grants, never, waits, before, right, brief = true, false, false, nil, true, false
local replies = {}
local away, unfinished, withdraws = nil, false, false -- a call withdraws nothing (parts/withdraw.lua)
do -- JUDGE
  local client, givenRate = ARGV[14], ARGV[13] and ARGV[13] ~= '' and ARGV[13] or nil
  -- include parts/limiter.lua
  local held
  do
    -- include parts/late.lua
    held = late and (last == ARGV[3] and amount or 0)
  end
  -- include parts/rebuild.lua
  local all = tonumber(ARGV[4])
  -- include parts/stamp.lua
  -- include parts/fits.lua
  grants, never, waits = grants and fits, never or wait == -1, waits or again
  right = right and drift == 0
  if held then -- it was carried out before, so all that still know of it were granted then, or none
    before = before ~= false and held >= all
  end
  -- DECIDE
  if before ~= nil then
    grants, waits = before, false
  elseif never then
    waits = false -- nothing is written, so another call would find the same
  end
  brief = grants and not waits and not asked and right
  -- WRITE
  local taken, reply = 0, nil
  again = waits -- nothing is noted of a call that comes again
  if before ~= nil then
    fits, wait, again, held = before, before and 0 or math.max(1, wait), false, held or 0
  elseif grants and not waits and not free then
    taken = all
  end
  if not brief then
    local answers = { fits and 1 or 0, wait }
    -- include parts/numbers.lua
    for i = 1, #reply do
      replies[#replies + 1] = reply[i]
    end
  end
  if not never or resent then
    -- include parts/vouch.lua
    -- include parts/take.lua
    -- include parts/finish.lua
  end
end -- END
return #replies == 0 and 0 or replies
