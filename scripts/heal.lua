-- heal.lua: makes a limiter plain (parts/plain.lua), without judging and without records of its own.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua
-- ARGV[4]  how many records were joined already, from the newest on: 0 at first, -1 if all were
-- ARGV[5]  the ms within which records are joined; empty at first
-- ARGV[13] the given rate of the call (parts/read.lua), which counts where none is set; missing or empty
-- for none
-- Reply:   {1 to send the call again, 0 if all is done; what ARGV[4] and ARGV[5] are to be then; permits by
--          which the value was wrong}
--
-- It brings records of the future back, removes expired ones, and sums the value. Above LIVE records it
-- joins those of Java, and those of Go, within a thousandth of an interval, dated by the latest: so permits
-- come back by so much later at most, never earlier. A call joins up to PAGE records, and the last call
-- sums what is left. Records of reservations and leases are settled by their names, and stay.

-- include parts/common.lua
-- include parts/keys.lua
local LIVE, PAGE, SLICES, ZREM = 2000, 500, 1000, 100
local l = newLimiter(hash, text, records, timeNow(ARGV[6]))
local behind, slice = tonumber(ARGV[4]), tonumber(ARGV[5])
if behind <= 0 then
  -- include parts/read.lua
  -- include parts/finish.lua
  l.unseen, l.heals, l.astray = false, true, true
  local given = (ARGV[13] or '') ~= '' and string.sub(ARGV[13], 1, -2) .. '0' or nil
  local err = read(l, ARGV[1], ARGV[2], given)
  if err and given and string.find(err.err, 'BADFIELD', 1, true) then -- the call may replace that rate
    err = read(l, ARGV[1], ARGV[2], ARGV[13])
  end
  if err then
    return err
  end
  local again = l.dead >= COUNTED -- there may be more
  if l.set then -- no rate is set yet: the call sums the value
    if l.dead > MANY then
      l.records('UNLINK')
    elseif l.dead > 0 then
      l.records('ZREMRANGEBYRANK', 0, l.dead - 1)
    end
  else
    finish(l, nil)
  end
  if again or behind < 0 or l.records('ZCARD') <= LIVE then
    return { again and 1 or 0, behind, 0, l.drift }
  end
  slice = math.max(1, math.floor(l.span / SLICES))
end

-- include parts/reserved.lua
-- include parts/packed.lua
-- include parts/put.lua
-- include parts/go.lua
local size = l.records('ZCARD')
local last = size - behind - 1
local page = last < 0 and {} or l.records('ZRANGE', math.max(0, last - PAGE + 1), last, 'WITHSCORES')
local groups, away = { [true] = {}, [false] = {} }, {}
local function join(group)
  if group.joined then
    put(l, group.time, packed(group.record, group.n))
    away[#away + 1] = group.record
  end
end
for i = #page - 1, 1, -2 do
  local record, time = page[i], page[i + 1]
  if not (reserved(record) or leased(record)) then
    local go, key, n = ofGo(record), math.floor((tonumber(time) or 0) / slice), count(record)
    local group = groups[go]
    if group.key == key and group.n + n <= FULL then
      group.n, group.joined = group.n + n, true
      away[#away + 1] = record
    else
      join(group)
      groups[go] = { key = key, n = n, time = time, record = record, joined = false }
    end
  end
end
join(groups[true])
join(groups[false])
for i = 1, #away, ZREM do -- unpack puts them all on the stack of Lua, which is bounded
  l.records('ZREM', unpack(away, i, math.min(i + ZREM - 1, #away)))
end
local left = size - l.records('ZCARD') -- the next page begins with the last one of each kind
return { 1, last < PAGE and -1 or math.max(1, behind + PAGE - left - 2), slice, 0 }
