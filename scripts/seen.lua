-- seen.lua: stands in the place of mine.lua where a request cannot find records of its own, and
-- remembers what it was granted in a field of the hash. A client has one such field and numbers its
-- requests, of which it sends one after another. Java passes over fields it does not know.
--
-- So it is where records have a resolution: all that is granted in a slot of so many ms is one record,
-- whoever grants it, with the time of the end of the slot; so permits come back later by up to that,
-- never earlier. And so it is in a format with too few random bytes.
--
-- ARGV[2], ARGV[3]   as in mine.lua; records are of one kind where all but their last eight bytes are
--           the same
-- ARGV[7]   the name of the field, 'merged:' and an ID; the number of this request; the ms of a slot, 0
--           for a record for each request
--
-- size      as in mine.lua
-- held      the permits that this request was granted before; nil if it was not here. If a later one
--           was, it is a late copy that nobody waits for: it was granted nothing
-- found     if it was, the records of that kind in its slot
-- extra     if it was not, the record of the slot now, nil if there is none yet. There are more than one
--           where one cannot hold so many permits; then it is the least
-- stamp     the end of the slot now
-- mark      the name of the field; number is that of the request, oldest that of the first one since the
--           limiter was cleared
-- first     where the arguments of acquire.lua go on

local mark, number, slot = string.match(ARGV[7], '^(%S+) (%d+) (%d+)$')
local found, held, extra, first = {}, nil, nil, 8
local size = #ARGV[3]
if #ARGV[2] > 9 then -- digits: it may take more than one record
  size = size / math.ceil(ARGV[2] / 4294967295)
end
local ms = math.max(1, math.min(interval, tonumber(slot)))
local stamp = math.ceil(now / ms) * ms
if keep > 0 then -- permits come back later by up to a slot, and a limiter lives longer than that (lifetime.lua)
  keep = math.max(keep, interval + ms + 1000)
end

local function inSlot(time)
  time = string.format('%d', time)
  local all, ours = redis.call('ZRANGEBYSCORE', KEYS[3], time, time), {}
  for i = 1, #all do
    if #all[i] == size and string.sub(all[i], 1, size - 8) == string.sub(ARGV[3], 1, size - 8) then
      ours[#ours + 1] = all[i]
    end
  end
  return ours
end

local last, granted, time, oldest = string.match(redis.call('HGET', KEYS[1], mark) or '', '^%d+ (%d+) (%d+) (%d+) (%d+)$')
oldest = tonumber(oldest or number)
if last and tonumber(last) >= tonumber(number) then
  held = last == number and tonumber(granted) or 0
  found = inSlot(tonumber(time))
elseif slot ~= '0' then
  for _, record in ipairs(inSlot(stamp)) do
    extra = extra and count(extra) <= count(record) and extra or record
  end
end
