-- heal.lua: makes a limiter plain (parts/plain.lua), without judging and without records of its own.
--
-- KEYS, ARGV[1], ARGV[6]: parts/common.lua; ARGV[2], errors: parts/read.lua
-- ARGV[4]  how many records were joined already, from the newest on: 0 at first
-- ARGV[13] the given rate of the call (parts/read.lua), which counts where none is set; missing or empty for none
-- Reply:   {1 to send the call again, otherwise 0; what ARGV[4] is to be then; permits by which the value was wrong}
--
-- It brings records of the future back, removes expired ones, and sums the value. Above LIVE records it joins those
-- of Java, and those of Go, within a thousandth of an interval, dated by the latest: so permits come back by so much
-- later at most, never earlier. Those of reservations and leases are settled by their names, and stay.

-- include parts/common.lua
-- include parts/keys.lua
-- include parts/read.lua
-- include parts/finish.lua
-- include parts/reserved.lua
-- include parts/packed.lua
-- include parts/put.lua
-- include parts/go.lua
local l = newLimiter(hash, text, records, timeNow(ARGV[6]))
l.unseen, l.heals, l.astray = false, true, true
local given = (ARGV[13] or '') ~= '' and string.sub(ARGV[13], 1, -2) .. '0' or nil
local err = read(l, ARGV[1], ARGV[2], given)
if err then
  return err
end
local again, behind = l.dead > MANY or l.more, tonumber(ARGV[4])
if l.set then -- no rate is set yet: only what has expired goes
  if l.dead > MANY then
    l.records('UNLINK')
  elseif l.dead > 0 then
    l.records('ZREMRANGEBYRANK', 0, l.dead - 1)
  end
  return { again and 1 or 0, 0, 0 }
end
finish(l, nil)
local LIVE, PAGE, SLICES, ZREM = 2000, 1000, 1000, 100
local size = again and 0 or l.records('ZCARD')
if size > LIVE then
  local page = l.records('ZRANGE', math.max(0, size - behind - PAGE), size - behind - 1, 'WITHSCORES')
  local slice, groups, away = math.max(1, l.span / SLICES), { [true] = {}, [false] = {} }, {}
  for i = #page - 1, 1, -2 do
    local record, time = page[i], page[i + 1]
    if not (reserved(record) or leased(record)) then
      local go, key, n = ofGo(record), math.floor((tonumber(time) or 0) / slice), count(record)
      local group = groups[go]
      if group.key == key and group.n + n <= FULL then
        group.n, group.joined = group.n + n, true
        away[#away + 1] = record
      else
        if group.joined then
          put(l, group.time, packed(group.record, group.n))
          away[#away + 1] = group.record
        end
        groups[go] = { key = key, n = n, time = time, record = record, joined = false }
      end
    end
  end
  for _, group in pairs(groups) do
    if group.joined then
      put(l, group.time, packed(group.record, group.n))
      away[#away + 1] = group.record
    end
  end
  for i = 1, #away, ZREM do -- unpack puts them all on the stack of Lua, which is bounded
    l.records('ZREM', unpack(away, i, math.min(i + ZREM - 1, #away)))
  end
  again = size > behind + PAGE
  behind = behind + PAGE - #away -- joined ones are one more each, so that the next page begins a few records early
end
return { again and 1 or 0, behind, l.drift }
