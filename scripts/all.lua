-- all.lua: takes permits from several limiters, from all of them or from none.
--
-- KEYS, ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua; ARGV[3]: parts/late.lua
-- ARGV[1], ARGV[4], ARGV[5], ARGV[13]  of the first limiter, as in acquire.lua: type, permits, records,
--            given rate. Those of the next ones stand in the same order from ARGV[15] on; KEYS go on as well
-- ARGV[7], ARGV[8], ARGV[12]  of all limiters, as in acquire.lua
-- Reply:     0 if all is granted, no caller asks for numbers, each value was right and no rate is replaced.
--            Otherwise the numbers of each limiter, the last limiter first, as acquire.lua gives them for a
--            single request. The call was granted if every limiter has granted; if one says that the call
--            must be sent again, nothing was granted
--
-- ARGV[2] is the session of this call alone (sessions in groupcall.go). The hash of each limiter has it: a
-- limiter may expire or be deleted before a copy of the call comes, and the hashes of the other limiters must
-- still identify the copy. Nothing is written before all limiters have granted.

-- The first half decides the call if each limiter is in the common case (parts/common_read.lua): it is
-- granted if each has the permits, and otherwise refused. Everything else falls through, before anything is
-- written, to the general case. The text between two lines MEMBER is repeated for each limiter, with its
-- KEYS (scripts.go).

-- include parts/common_time.lua
local seen, asked, resent, common, granted = {}, ARGV[8] == '1', (ARGV[7] or '') ~= '', true, true
local dues = false -- a refusal writes no session, which would note the check
-- MEMBER
do
  local NEXT = 15 -- where the arguments of the second limiter begin
  local from, kind, amount, member, given = NEXT + 4 * (#seen - 1), ARGV[1], ARGV[4], ARGV[5], ARGV[13]
  if from >= NEXT then
    kind, amount, member, given = ARGV[from], ARGV[from + 1], ARGV[from + 2], ARGV[from + 3]
  end
  -- The general case notes a refusal of a copy.
  local lone, usual = not resent, common and kind == '0' and ARGV[12] == ''
  -- include parts/common_read.lua
  common = right and (wait or not redis.call('ZSCORE', KEYS[3], member))
  granted = granted and not wait
  dues = dues or due
  seen[#seen + 1] = {
    kind = kind, amount = amount, member = member, given = given,
    hash = f, text = text, oldest = oldest, now = now, us = us, timed = at ~= ARGV[6], at = at,
    common = right and {
      rate = rate, interval = interval, keep = keep, all = all, value = value, gone = gone, back = back,
      reset = asked and first[1] and math.ceil(latest) + interval - now or 0, wait = wait,
    },
  }
end
-- MEMBER
common = common and (granted or not dues)
if common then
  local replies, i, brief = {}, 0, granted and not asked
  -- MEMBER
  do
    i = i + 1
    local s, own = seen[i], false
    local c, given, step = s.common, s.given, '-' .. s.amount
    local interval, keep, value, gone, back = c.interval, c.keep, c.value, c.gone, c.back
    local taken, reset, wait = granted and c.all or 0, c.reset, c.wait or 0
    local later = granted and interval or reset
    if granted then
      redis.call('HSET', KEYS[1], ARGV[2], ARGV[3] .. ' ' .. at .. ' ' .. s.amount .. ' ' .. at)
      redis.call('ZADD', KEYS[3], at, s.member)
    end
    -- include parts/common_write.lua
    if ends then
      reset, later, wait = math.min(reset, ends), math.min(later, ends), math.min(wait, ends * 1000 - us)
    end
    local numbers = { 0, c.rate, value - taken, reset, later, interval, 0, c.wait and 0 or 1, wait }
    for j = 1, brief and 0 or #numbers do
      replies[#numbers * (#seen - i) + j] = numbers[j]
    end
  end
  -- MEMBER
  return brief and 0 or replies
end

-- include parts/common.lua
-- include parts/read.lua
-- include parts/late.lua
-- include parts/fits.lua
-- include parts/take.lua
-- include parts/finish.lua
-- include parts/numbers.lua
local members = {}
-- MEMBER
do
  -- include parts/keys.lua
  members[#members + 1] = newLimiter(hash, text, records, seen[#members + 1])
end
-- MEMBER

for i = 1, #members do
  local l, s = members[i], seen[i]
  local given = s.given ~= '' and s.given or nil
  l.request = { number = ARGV[3], all = tonumber(s.amount), text = s.amount, records = s.member,
    slot = tonumber(ARGV[12] or '') or 0, given = given }
  local err = read(l, s.kind, ARGV[2], given, s)
  if err then
    return err
  end
end

local grants, never, waits, before, right = true, false, false, nil, true
for i = 1, #members do
  local l, again = members[i], false
  l.held = lateness(l, ARGV[3], false).held
  setStamp(l, l.request)
  l.fits, l.wait, again = fits(l, l.request, l.held, asked)
  grants, never, waits = grants and l.fits, never or l.wait == -1, waits or again
  right = right and l.drift == 0 and not l.replaces
  if l.held then -- carried out before: granted by every limiter that still has the session, or by none
    before = before ~= false and l.held >= l.request.all
  end
end
if before ~= nil then
  grants, waits = before, false
elseif never then
  waits = false -- nothing is written, so another call would find the same
end

local replies = {}
for i = #members, 1, -1 do
  local l, taken, again = members[i], 0, waits -- a call that is to be sent again leaves no note
  l.replaces = l.replaces and (not never or resent)
  if before ~= nil then
    l.fits, l.wait, again, l.held = before, before and 0 or math.max(1, l.wait), false, l.held or 0
  elseif grants and not waits and not l.free then
    taken = l.request.all
  end
  if not (grants and not waits and not asked and right) then
    local reply = numbers(l, asked, again, { l.fits and 1 or 0, l.wait }, taken, l.request.stamp)
    for j = 1, #reply do
      replies[#replies + 1] = reply[j]
    end
  end
  if not never or resent or l.unseen then
    local notes = not l.held and not again and (taken > 0 or resent or l.unseen)
    finish(l, take(l, l.request, taken, notes))
  end
end
return #replies == 0 and 0 or replies
