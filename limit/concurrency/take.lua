-- take.lua: takes permits for a lease, or gives back permits without a Lease.
--
-- KEYS[1]  parts/read.lua
-- ARGV[1]  the permits, negative if they are given back, 0 to look: that only drops ended leases
-- ARGV[2]  the most that are out at once
-- ARGV[3]  how long a lease lasts, in us
-- ARGV[4]  the ID, OWNER-NUMBER of a Lease, or OWNER@NUMBER of permits without one; unique
-- ARGV[5]  when the permits to give back come back with time, in us since 1970; none: never. Those of this
--          time go first
-- Reply:   the permits left; when all are back, in us; when these permits come back with time, in us
--          since 1970, 0 if nothing was taken; when the permits are back, in us

-- include parts/read.lua
local n, most, lease, id = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]

-- give gives back permits without a Lease, the oldest first: those of the owner, or of other owners, with at
-- those that end then.
local function give(owner, own, at)
  local gone = {}
  for from = 1, math.min(leases, MANY), PART do
    local part
    if at then
      part = redis.call('ZRANGEBYSCORE', KEYS[1], whole(at), whole(at), 'WITHSCORES', 'LIMIT', from - 1, PART)
    else
      part = redis.call('ZRANGE', KEYS[1], from, from + PART - 1, 'WITHSCORES')
    end
    for i = 1, #part, 2 do
      local name, count, long = string.match(part[i], '^(.*@)([^@]*):%d+:(%d+)$')
      if name and n < 0 and (name == owner) == own then
        local permits = parse(part[i])
        local back = math.min(permits, -n)
        n, taken, changed = n + back, taken - back, true
        gone[#gone + 1] = part[i]
        if back < permits then
          local rest = name .. count .. ':' .. whole(permits - back) .. ':' .. long
          redis.call('ZADD', KEYS[1], part[i + 1], rest)
          leases = leases + 1
        end
      end
    end
    if n >= 0 or #part == 0 then
      break
    end
  end
  for _, member in ipairs(gone) do
    redis.call('ZREM', KEYS[1], member)
  end
  leases = leases - #gone
end

-- back returns when n permits will be there, in us.
local function back()
  local need, room = math.max(n, 1) - (most - taken), leases - MANY
  for from = 1, math.min(leases, MANY), PART do
    local part = redis.call('ZRANGE', KEYS[1], from, from + PART - 1, 'WITHSCORES')
    for i = 1, #part, 2 do
      need, room = need - parse(part[i]), room - 1
      if need <= 0 and room < 0 then
        return part[i + 1] - now
      end
    end
  end
  return lease
end

local stamp = tonumber(ARGV[5])
local ends, retry = now + lease, 0
if stamp and now >= stamp then
  ends = 0
elseif n < 0 then
  local owner = string.match(id, '^.*@')
  if stamp then
    give(owner, true, stamp)
  end
  give(owner, true)
  give(owner, false)
elseif n == 0 and taken < most and leases < MANY then -- one is there
  ends = 0
elseif n > 0 and n <= most - taken and leases < MANY then
  redis.call('ZADD', KEYS[1], whole(now + lease), id .. ':' .. whole(n) .. ':' .. whole(lease))
  taken, leases, changed = taken + n, leases + 1, true
else
  ends, retry = 0, back()
end
-- include parts/write.lua
local left = leases < MANY and math.max(0, most - taken) or 0
return {left, reset, ends, retry}
