-- read.lua: reads a limit, and drops the leases that have ended. Times are those of the server, in us.
--
-- KEYS[1]  sorted set: a member ID:PERMITS:LEASE for each lease, scored with its end. LEASE is how long it
--          lasts. And the member =TIME, whose score is minus the sum of all permits, which calls need not
--          add up. At TIME, within a minute, a call adds them up again: the set may have been changed
--
-- in:       none
-- out:      MANY (leases that a limit has at most), PART (leases read at once), MOST, whole (a number as
--           text), parse (the permits and the LEASE of a member), now, sum (the member =TIME), taken
--           (permits), leases, changed (sum is to be written)
-- changes:  none
-- writes:   yes
-- ends the script: no

local MANY, PART = 2000, 100
local MOST = 9007199254740992 -- 2^53: up to here a double holds every integer

local function whole(n)
  return string.format('%.0f', n)
end

-- Both are 0 for a member that is not a lease.
local function parse(member)
  local permits, lease = string.match(member, ':(%d+):(%d+)$')
  return math.min(tonumber(permits) or 0, MOST), math.min(tonumber(lease) or 0, MOST)
end

local now, sum
local taken, leases, changed = 0, 0, false
do
  local MINUTE = 60000000
  local anew = false
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
  sum = '=' .. whole(now + MINUTE)
  local first = redis.call('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES')
  if first[1] then
    local due = tonumber(string.match(first[1], '^=(%d+)$')) or 0
    taken = -tonumber(first[2])
    local over = redis.call('ZRANGEBYSCORE', KEYS[1], '0', whole(now), 'LIMIT', '0', MANY)
    for i = 1, #over do
      taken = taken - parse(over[i])
    end
    if #over > 0 then
      changed = true
      redis.call('ZREMRANGEBYRANK', KEYS[1], '1', #over) -- they follow the sum
    end
    leases = redis.call('ZCARD', KEYS[1]) - 1
    local last = redis.call('ZRANGE', KEYS[1], '-1', '-1', 'WITHSCORES')
    local _, lease = parse(last[1] or '')
    -- NaN fails every comparison. A lease that ends too late is older than a step of the clock.
    anew = not (due > now and due <= now + MINUTE and leases > 0 and taken >= math.min(leases, MANY)
      and taken < MOST and taken % 1 == 0 and tonumber(last[2]) <= now + lease)
    if not anew then
      sum = first[1]
    end
  end
  if anew then
    changed, taken = true, 0
    redis.call('ZADD', KEYS[1], '-1', sum) -- add first, so that the key stays
    local all = redis.call('ZRANGE', KEYS[1], '0', MANY, 'WITHSCORES')
    for i = 1, #all, 2 do
      local permits, lease = parse(all[i])
      local ends = tonumber(all[i + 1]) or 0
      if permits > 0 and ends > now then
        taken = taken + permits
        if ends > now + lease then
          redis.call('ZADD', KEYS[1], whole(now + lease), all[i])
        end
      elseif all[i] ~= sum then
        redis.call('ZREM', KEYS[1], all[i])
      end
    end
    leases = redis.call('ZCARD', KEYS[1]) - 1
  end
end
