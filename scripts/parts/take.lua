-- take.lua: dates and writes what is granted.
--
-- A request r, as these functions take it, has
--   number, all, text  its number; the permits of it, and ARGV's text of them
--   records   records that hold as many permits, as few as possible, end to end
--   slot      the ms of a slot of time, 0 for none, or minus those of a lease (acquire.lua)
--   given     the given rate, or nil
-- setStamp adds stamp, the time of its records, and size, the bytes of one record (21 at most).

-- setStamp dates a request, and prepares its time to live: l.alive is the keep alive to be set, and l.lasts
-- the ms that the keys must live for if their time to live is not to be set (lifetime.lua); nil where it is
-- always set.
local function setStamp(l, r)
  local SECOND, PART = 1000, 8 -- ms; an eighth less does no harm, and saves three commands in most calls
  l.alive, l.lasts, r.stamp, r.size = l.keep, nil, l.now, #r.records
  if r.all > FULL then -- r.records is more than one record
    r.size = r.size / math.ceil(r.all / FULL)
  end
  if r.slot > 0 then
    r.slot = math.max(1, math.min(l.interval, r.slot))
    r.stamp = math.ceil(l.now / r.slot) * r.slot
    if l.keep > 0 then -- a limiter outlives its permits by a second (lifetime.lua), also those of a slot
      l.keep = math.max(l.keep, l.span + r.slot + SECOND)
    end
  end
  if r.slot < 0 then -- of at most a second, so that its permits do not outlive the limiter
    r.stamp = l.now - r.slot
  end
  if r.given and l.keep > 0 then
    l.lasts = math.max(math.ceil(l.keep - l.keep / PART), l.span + math.abs(r.slot) + SECOND)
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
  -- If all records that count are about to be removed (l.away), the slot has none.
  local extra = nil
  if r.slot > 0 and not l.away then
    -- include parts/slot.lua
    extra = inSlot(l, r, at)
  end
  -- include parts/put.lua
  local left = taken
  for from = 1, #r.records, math.max(1, r.size) do
    local member = string.sub(r.records, from, from + r.size - 1)
    local n = left <= FULL and left or FULL
    local there, replaced = extra and count(extra) or FULL, nil
    if n + there <= FULL then
      -- include parts/packed.lua
      member, replaced, extra = packed(member, n + there), extra, nil
    elseif taken < r.all then
      -- include parts/packed.lua
      member = packed(member, n)
    end
    put(l, at, member)
    if replaced then -- only now, so that an error in between loses no permits
      l.records('ZREM', replaced)
    end
    left = left - n
    if left == 0 then
      break
    end
  end
  local step = l.value == l.stored and taken == r.all and '-' .. r.text or nil
  l.value = l.value - taken
  return step
end
