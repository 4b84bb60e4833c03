-- settle.lua: settles a reservation of several limiters, or charges them, in one call. Reserved permits that
-- were not used come back out of the reservation's own records, and permits beyond it are taken whatever is
-- left: the value may become negative.
--
-- KEYS       of each limiter three, as in acquire.lua
-- ARGV[2]    the session, as in all.lua
-- ARGV[3], ARGV[6..8]  as in acquire.lua: number, now, whether it was sent before, whether a caller asks
-- ARGV[5]    as ARGV[9] in all.lua: the limiters for which heal.lua was called
-- ARGV[9..]  for each limiter nine arguments, of which the last four are often empty; empty ones at the end
--            are missing:
--            0. its type
--            1. the records of the reservation, end to end; empty for a charge
--            2. the permits that they hold
--            3. those of them that go back
--            4. the channel that wakes waiters
--            5. the permits to be taken beyond them, empty for none
--            6. records that hold as many, as few as possible, end to end; always the same for a reservation
--            7. the given rate (parts/plain.lua), for a reservation one that keeps another; empty where a
--               rate must be set
--            8. if the reservation is a lease, which is dated by its end: the ms since its permits were last
--               used. Those that were used are dated back to that time
-- Reply:     {the number of a limiter} if nothing was settled: heal.lua is to be called first for it. 0 if
--            the caller does not ask, each value was right and no rate is replaced. Otherwise for each
--            limiter {2 if a given rate replaces another; rate; permits left, may be negative; ms until all
--            permits are back, twice; the interval in ms; the permits by which the value was wrong}. All are
--            0 for one that has none of these to report, or that is gone: nothing is left to settle then
-- Errors:    as in acquire.lua; and DEBT and the number of a limiter that cannot have so large a debt
--
-- A call that comes again changes nothing: the session tells that permits were taken beyond a reservation,
-- and the records tell whether it was settled before, perhaps by another process. Settled to less, they are
-- gone, or hold fewer permits. Settled to more, they stay, under names of their own, and other records hold
-- the permits beyond them. While versions with different intervals take turns, records may count for another
-- version only. Permits come back out of these as well, but the current value does not count them.
--
-- Nothing is written before all limiters were read. The text between two lines MEMBER is repeated for each
-- limiter, with its KEYS (scripts.go).

-- include parts/common_time.lua
local FULL, FIRST, EACH, NUMBERS, PLANNED = 4294967295, 9, 9, 7, 25
local number, resent, asked = ARGV[3], ARGV[7] ~= '', ARGV[8] == '1'
local timed, lease, plan, replies, summed = at ~= ARGV[6], 0, {}, {}, 0
-- MEMBER
do
  local member, place = #plan + 1, FIRST + EACH * #plan
  local kind, records, healed = ARGV[place], ARGV[place + 1], string.find(ARGV[5], member, 1, true)
  local took, given = ARGV[place + 5] or '', ARGV[place + 7] or ''
  local ttl = redis.call('PTTL', KEYS[1])
  plan[member] = false
  if ttl ~= -2 or records == '' or given ~= '' then -- otherwise it is gone
    -- include parts/plain.lua
    -- include parts/late.lua
    local reserved, free, extra = tonumber(ARGV[place + 2]), tonumber(ARGV[place + 3]), tonumber(took) or 0
    local beyond, idle = ARGV[place + 6] or '', tonumber(ARGV[place + 8] or '')
    local size = #beyond / math.max(1, math.ceil(extra / FULL))
    local width = #records / math.max(1, math.ceil(reserved / FULL))
    -- changes has each record that changes, its new name, '' if all of its permits go back, and its time
    local settled, changes, freed = held or interval <= 0, {}, 0
    for last = settled and 0 or #records, 1, -math.max(1, width) do
      local record = string.sub(records, last - width + 1, last)
      local time, name = redis.call('ZSCORE', KEYS[3], record), record
      local ms = time and (tonumber(time) or math.huge) or -math.huge
      if extra > 0 then
        local HALF = 128 -- of the values of a byte: changes the last random byte
        name = string.sub(record, 1, -6) .. string.char((string.byte(record, -5) + HALF) % 256)
          .. string.sub(record, -4)
        if not time and not settled then -- it was settled to more, if the other name is there
          settled = redis.call('ZSCORE', KEYS[3], name)
        end
      elseif not time then
        break -- the last record goes first
      elseif freed < free and ms > now - span then
        -- include parts/packed.lua
        local n = count(record)
        local back = math.min(n, free - freed)
        name = back < n and packed(record, n - back) or ''
        freed, value = freed + back, ms > now - interval and math.min(rate, value + back) or value
      end
      if ms > now - span and (idle or name ~= record) then
        time = idle and string.format('%d', math.min(ms, math.max(now - interval + 1, now - idle))) or time
        changes[#changes + 1] = { record, name, time }
      end
    end
    if extra > 0 and reserved > 0 and not settled then
      settled = redis.call('ZSCORE', KEYS[3], string.sub(beyond, 1, size))
    end
    local taken = settled and 0 or extra
    if value - taken < rate - MOST then
      return redis.error_reply('DEBT ' .. member)
    end
    if keep > 0 or endless then
      ttl = -1
    end
    if asked or drift ~= 0 or replaces then
      local newest = redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')
      local latest = math.ceil(tonumber(newest[2]) or 0) -- that of a lease is ahead
      latest = math.max(taken > 0 and now or 0, latest)
      local reset = math.max(0, math.min(latest - now, interval) + interval)
      reset = ttl < 0 and reset or math.min(reset, ttl + 1)
      local numbers = { replaces and 2 or 0, rate, value - taken, reset, reset, interval, drift }
      for j = 1, NUMBERS do
        replies[NUMBERS * (member - 1) + j] = numbers[j]
      end
    end
    plan[member] = { f, set, endless, longest, vouched, stored, value, given, span, dead,
      (extra > 0 or set) and ttl, recent, look, held, taken, took, beyond, size, rate, interval, keep, there,
      own, changes, freed }
  end
end
-- MEMBER
local i = 0
-- MEMBER
i = i + 1
if plan[i] then
  local f, set, endless, longest, vouched, stored, value, given, span, dead,
    ttl, recent, look, held, taken, took, beyond, size, rate, interval, keep, there,
    own, changes, freed = unpack(plan[i], 1, PLANNED)
  local entry = nil
  if took ~= '' or resent or look then -- WAIT counts the writes of its own connection, not those of a copy's
    entry = held and f[5] or number .. ' ' .. at .. ' ' .. (taken > 0 and took or '0') .. ' ' .. at
      .. (own and string.format(' %d', rate) or '')
  end
  -- include parts/add.lua
  for from = 1, taken > 0 and #beyond or 0, math.max(1, size) do
    add(at, string.sub(beyond, from, from + size - 1))
  end
  -- include parts/write.lua
  for j = 1, #changes do
    local record, name, time = changes[j][1], changes[j][2], changes[j][3]
    if name == record then
      redis.call('ZADD', KEYS[3], time, record)
    else
      if name ~= '' then
        add(time, name)
      end
      redis.call('ZREM', KEYS[3], record)
    end
  end
  if freed > 0 then
    redis.pcall('PUBLISH', ARGV[FIRST + EACH * (i - 1) + 4], 'changed')
  end
end
-- MEMBER
local brief = not next(replies)
for j = 1, brief and 0 or NUMBERS * #plan do
  replies[j] = replies[j] or 0
end
return brief and 0 or replies
