-- take.lua: dates and writes what is granted.
--
-- A request r, as these functions take it, has
--   number, all, text  its number; the permits of it, and ARGV's text of them
--   records   records that hold as many permits, as few as possible, end to end
--   lease     minus the ms of a lease (acquire.lua), 0 for none
--   given     the given rate, or nil
-- setStamp adds stamp, the time of its records, and size, the bytes of one record (21 at most).

-- setStamp dates a request, and prepares its time to live: l.alive is the keep alive to be set, and l.lasts
-- the ms that the keys must live for if their time to live is not to be set (lifetime.lua); nil where it is
-- always set.
local function setStamp(l, r)
  local SECOND, PART = 1000, 8 -- ms; an eighth less does no harm, and saves three commands in most calls
  l.alive, l.lasts, r.size = l.keep, nil, #r.records
  r.stamp = l.now - r.lease -- a second ahead at most, so that its permits do not outlive the limiter
  if r.all > FULL then -- r.records is more than one record
    r.size = r.size / math.ceil(r.all / FULL)
  end
  if r.given and l.keep > 0 then
    l.lasts = math.max(math.ceil(l.keep - l.keep / PART), l.span - r.lease + SECOND)
  end
end

-- take writes the given rate, the session if notes says so, and records for the taken permits. It returns
-- value - stored as a text, or nil if that is not known: finish.lua.
local function take(l, r, taken, notes)
  local at = r.stamp == l.now and l.at or string.format('%d', r.stamp)
  if l.set then
    -- include parts/given.lua
    setGiven(l)
  end
  if notes then
    -- include parts/session.lua
    remember(l, r.number, taken == r.all and r.text or string.format('%d', taken), at)
  end
  if taken == 0 then
    return nil
  end
  -- include parts/put.lua
  local left = taken
  for from = 1, #r.records, math.max(1, r.size) do
    local member = string.sub(r.records, from, from + r.size - 1)
    local n = left <= FULL and left or FULL
    if taken < r.all then
      -- include parts/packed.lua
      member = packed(member, n)
    end
    put(l, at, member)
    left = left - n
    if left == 0 then
      break
    end
  end
  local step = l.value == l.stored and taken == r.all and '-' .. r.text or nil
  l.value = l.value - taken
  return step
end
