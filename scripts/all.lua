-- all.lua: takes permits from several limiters, from all of them or from none.
--
-- KEYS       of each limiter three, as in acquire.lua
-- ARGV[1], ARGV[4], ARGV[5], ARGV[10]  of the first limiter, as in acquire.lua: type, permits, records,
--            given rate. Those of the next ones stand in the same order from ARGV[15] on
-- ARGV[2]    the session of this call alone. The hash of each limiter has it: a limiter may expire or be
--            deleted before a copy of the call comes, and the hashes of the other limiters must still
--            identify the copy
-- ARGV[3], ARGV[6..8], ARGV[12]  of all limiters, as in acquire.lua
-- ARGV[9]    the numbers of the limiters for which heal.lua was called, without a space
-- Reply:     {the number of a limiter} if nothing was judged: heal.lua is to be called first for it, or the
--            name of a record is taken. 0 if all is granted, no caller asks for numbers, each value was
--            right and no rate is replaced. Otherwise the numbers of each limiter as acquire.lua gives them
--            for a single request. The call was granted if every limiter has granted
-- Errors:    as in acquire.lua
--
-- Nothing is written before all limiters have granted. The text between two lines MEMBER is repeated for each
-- limiter, with its KEYS (scripts.go).

-- include parts/common_time.lua
local FULL, EACH, PLANNED = 4294967295, 9, 28 -- numbers in the reply for a limiter; names in a plan
local NEXT = 15 -- where the arguments of the second one begin
local number, resent, asked = ARGV[3], (ARGV[7] or '') ~= '', ARGV[8] == '1'
local lease, timed = -(tonumber(ARGV[12] or '') or 0), at ~= ARGV[6]
local stamp = lease == 0 and at or string.format('%d', now + lease)
local plan, grants, never, before, summed, pages = {}, true, false, nil, 0, 0
-- MEMBER
do
  local member, kind, amount, records, given = #plan + 1, ARGV[1], ARGV[4], ARGV[5], ARGV[10]
  local healed = string.find(ARGV[9], member, 1, true)
  if member > 1 then
    local from = NEXT + 4 * (member - 2)
    kind, amount, records, given = ARGV[from], ARGV[from + 1], ARGV[from + 2], ARGV[from + 3]
  end
  -- include parts/plain.lua
  local ttl = keep <= 0 and not endless and redis.call('PTTL', KEYS[1]) or -1
  local ends = ttl >= 0 and (ttl + 1) * 1000 or MOST -- us
  -- include parts/late.lua
  local n, wait, spent, reset, walked, passed = tonumber(amount), 0, 0, 0, nil, false
  if held then -- carried out before: granted by every limiter that still has the session, or by none
    before = before ~= false and held >= n
  end
  if n > rate then
    wait, never = -1, true
  elseif n > value and interval > 0 then
    -- include parts/until.lua
  end
  local size = #records / math.max(1, math.ceil(n / FULL))
  for from = 1, wait == 0 and #records or 0, math.max(1, size) do
    if not held and redis.call('ZSCORE', KEYS[3], string.sub(records, from, from + size - 1)) then
      return { member }
    end
  end
  grants = grants and wait == 0
  -- include parts/newest.lua
  plan[member] = { f, set, endless, longest, vouched, stored, value, given, span, dead, ttl, recent, rate,
    keep, there, own, interval, held, look, n, amount, records, size, wait, reset, ends, drift, replaces }
end
-- MEMBER
if before ~= nil then
  grants = before
end
local replies, i, brief = {}, 0, grants and not asked
-- MEMBER
do
  i = i + 1
  local f, set, endless, longest, vouched, stored, value, given, span, dead, ttl, recent, rate,
    keep, there, own, interval, held, look, n, took, records, size, wait, reset, ends, drift, replaces =
    unpack(plan[i], 1, PLANNED)
  local takes = grants and before == nil and interval > 0
  local taken, writes = takes and n or 0, not never or resent or before ~= nil
  local entry = held and f[5] or nil -- WAIT counts the writes of its own connection, not those of a copy's
  if not held and (takes or resent or look) then
    entry = number .. ' ' .. at .. ' ' .. (takes and took or 0) .. ' ' .. stamp
      .. (own and string.format(' %d', rate) or '')
  end
  for from = 1, takes and #records or 0, math.max(1, size) do
    redis.call('ZADD', KEYS[3], stamp, string.sub(records, from, from + size - 1))
  end
  if writes then
    -- include parts/write.lua
  end
  if before ~= nil then
    wait = before and 0 or math.max(1, wait)
  end
  local most, after = ends / 1000, asked and takes and math.max(reset, lease + interval) or reset
  replaces = replaces and writes
  brief = brief and drift == 0 and not replaces
  local numbers = { replaces and 2 or 0, rate, value - taken, math.min(reset, most), math.min(after, most),
    interval, drift, wait == 0 and 1 or 0, wait }
  for j = 1, EACH do
    replies[#replies + 1] = numbers[j]
  end
end
-- MEMBER
return brief and 0 or replies
