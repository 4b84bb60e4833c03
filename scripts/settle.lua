-- settle.lua: settles a reservation of several limiters, or charges them, in one call. Reserved permits that
-- were not used come back out of the reservation's own records, and permits beyond it are taken whatever is
-- left: the value may become negative.
--
-- KEYS, ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua; ARGV[3]: parts/late.lua
-- ARGV[7]    if a copy of this call may have reached the server before: the ms since it was first sent
-- ARGV[8]    1 if the caller asks for numbers
-- ARGV[9..]  for each limiter nine arguments, of which the last four are often empty; empty ones at the end
--            are missing:
--            1. its type
--            2. the records of the reservation, end to end; empty for a charge
--            3. the permits that they hold
--            4. those of them that go back
--            5. the channel that wakes waiters
--            6. the permits to be taken beyond them, empty for none
--            7. records that hold as many, as few as possible, end to end; always the same for a reservation
--            8. the given rate (parts/read.lua), for a reservation one that keeps another; empty where a
--               rate must be set
--            9. if the reservation is a lease, which is dated by its end: the ms since its permits were last
--               used. Those that were used are dated back to that time
-- Reply:     0, or for each limiter the numbers of parts/numbers.lua without answers; all 0 for a limiter
--            that is gone, of which nothing is left to settle
--
-- A call that comes again changes nothing: the records tell that a reservation is settled (parts/unused.lua),
-- and the session that permits were taken beyond it (parts/late.lua).

-- The first half settles if the records of the reservation are there, one of each limiter, and nothing needs
-- repair. It does not look whether their new names are taken, so it is for the format with most random bytes.
-- Everything else falls through, before anything is written, to the general case.

-- include parts/common_time.lua
local FIRST, EACH = 9, 9 -- where the arguments of the limiters begin, and how many each has
local plan, common = {}, ARGV[8] == ''
-- MEMBER
do
  local MOST, FULL, FEW, FROM, TO = 9007199254740992, 4294967295, 13, 18, 26 -- as in the general case
  local BC0I16 = 21 -- the bytes of a record
  local from = FIRST + EACH * #plan
  local member, reserved = ARGV[from + 1], tonumber(ARGV[from + 2])
  local freed, took = ARGV[from + 3], ARGV[from + 5] or ''
  local score = common and #member == BC0I16 and redis.pcall('ZSCORE', KEYS[3], member)
  local p = { member = member, at = score, reserved = reserved, freed = freed, free = tonumber(freed),
    channel = ARGV[from + 4], took = took, extra = tonumber(took) or 0, beyond = ARGV[from + 6] }
  plan[#plan + 1] = p
  local since = tonumber(score or nil)
  local f = since and redis.pcall('HMGET', KEYS[1], 'rate', 'interval', 'type', ARGV[2], 'longest') or {}
  local text = since and redis.pcall('GET', KEYS[2])
  local rate, interval, value = tonumber(f[1]), tonumber(f[2]), tonumber(text or nil)
  p.value = value
  local right = rate and interval and value and f[3] == '0' and ARGV[from] == '0' and not f[5]
    and (ARGV[from + 8] or '') == ''
    and rate % 1 + interval % 1 + since % 1 + value % 1 == 0 and math.max(rate, interval) <= MOST
    and since > now - interval and since <= now
    and value + p.free <= rate and value - p.extra >= rate - MOST and p.reserved + p.extra <= FULL
    and (not f[4] or f[4] < ARGV[3])
    and (p.extra == 0 or f[4] and string.sub(f[4], FROM, TO) == string.sub(at, 1, 9)
      or redis.call('HLEN', KEYS[1]) < FEW)
  common = right
  if common and p.extra > 0 then -- the record is new, and must not expire with its key
    local ttl = redis.call('PTTL', KEYS[3])
    common = (ttl < 0 or ttl > interval + 1000) and not redis.call('ZSCORE', KEYS[3], p.beyond)
  end
end
-- MEMBER
if common then
  local i = 0
  -- MEMBER
  do
    i = i + 1
    local p = plan[i]
    if p.free + p.extra > 0 then
      if p.extra > 0 then
        -- include parts/renamed.lua
        redis.call('HSET', KEYS[1], ARGV[2], ARGV[3] .. ' ' .. at .. ' ' .. p.took .. ' ' .. at)
        redis.call('ZADD', KEYS[3], p.at, renamed(p.member), at, p.beyond)
      elseif p.free < p.reserved then
        -- include parts/packed.lua
        redis.call('ZADD', KEYS[3], p.at, packed(p.member, p.reserved - p.free))
      end
      if type(redis.pcall('INCRBY', KEYS[2], p.extra > 0 and '-' .. p.took or p.freed)) == 'table' then
        -- The user may not run INCRBY, or it refuses the text (finish.lua). SET removes the time to live.
        local ttl = redis.call('PTTL', KEYS[2])
        redis.call('SET', KEYS[2], string.format('%d', p.value + p.free - p.extra))
        if ttl > 0 then
          redis.call('PEXPIRE', KEYS[2], ttl)
        end
      end
      if p.free > 0 then
        redis.pcall('PUBLISH', p.channel, 'changed')
      end
      redis.call('ZREM', KEYS[3], p.member) -- last, as finish.lua says
    end
  end
  -- MEMBER
  return 0
end

-- include parts/common.lua
-- include parts/renamed.lua
-- include parts/read.lua
-- include parts/late_old.lua
-- include parts/unused.lua
-- include parts/take.lua
-- include parts/finish.lua
-- include parts/numbers.lua
local members = {}
-- MEMBER
do
  -- include parts/keys.lua
  local time = { now = now, us = us, timed = at ~= ARGV[6], at = at }
  members[#members + 1] = newLimiter(hash, text, records, time)
end
-- MEMBER

local again = false
for i = 1, #members do
  local l, from = members[i], FIRST + EACH * (i - 1)
  local given = (ARGV[from + 7] or '') ~= '' and ARGV[from + 7] or nil
  local err = read(l, ARGV[from], ARGV[2], given)
  l.settles = { records = ARGV[from + 1], reserved = tonumber(ARGV[from + 2]),
    free = tonumber(ARGV[from + 3]), channel = ARGV[from + 4], idle = tonumber(ARGV[from + 8] or '') }
  local more = (ARGV[from + 5] or '') ~= '' and ARGV[from + 5] or '0'
  l.request = { number = ARGV[3], all = tonumber(more), text = more,
    records = ARGV[from + 6] or '', lease = 0, given = given }
  l.absent = err and l.settles.reserved > 0 and string.find(err.err, '^NOTINIT')
  if err and not l.absent then
    return err
  end
  again = again or l.dead > MANY -- finish removes all of them, which must come first
  if not l.absent and l.value - l.request.all < l.rate - MOST then
    return redis.error_reply('DEBT ' .. i)
  end
end

local replies, asked, resent = {}, ARGV[8] == '1', ARGV[7] ~= '' -- of a copy WAIT counts only its own writes
for i = 1, #members do
  local l, taken, reply = members[i], 0, { 0, 0, 0, 0, 0, 0, 0 }
  if not l.absent then
    local done, found = lateness(l, ARGV[3], false).late or again, nil
    setStamp(l, l.request)
    if not (done or l.free) then
      found, taken = unused(l, l.settles, l.request)
    end
    reply = numbers(l, asked, again, nil, found and taken - found.given or taken, l.request.stamp)
    local step = take(l, l.request, taken, (l.request.all > 0 or resent) and not done)
    if found then
      settleRecords(l, found, l.settles)
    end
    finish(l, step)
  end
  for j = 1, #reply do
    replies[#replies + 1] = reply[j]
  end
end
return replies
