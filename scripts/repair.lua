-- repair.lua: rewrites records in one format, and drops members that are none. heal.lua does the rest: it is
-- called before the first page, and after the last one.
--
-- KEYS, ARGV[1], ARGV[6]: acquire.lua
-- ARGV[4]  the time that the page begins with: -2^53 at first, then the first number of the last reply
-- ARGV[5]  a record of the format; new records count up from its random bytes
-- ARGV[8]  the records from that time on to pass over: 0 at first, then the second number of the last reply
-- ARGV[11] the channel that wakes waiters
-- ARGV[12] the bytes that every record of the format begins with
-- Reply:   {the time and the number to go on from; 1 if this was the last page; records that are left;
--          records rewritten; records dropped}
--
-- A member is dropped if it has no format of Redisson, or if it holds 0 permits. Its permits do not return to
-- the value until that is summed: it may be too low meanwhile, never too high. A record of the format
-- keeps its name, by which reservations and leases are settled; a time more than an interval ahead becomes
-- now.

-- include parts/common_time.lua
-- include parts/count.lua
-- include parts/packed.lua
-- include parts/add.lua
local PAGE, ZREM, FI, LC0I = 250, 100, 8, 20 -- records: 1 ms; in one command; the bytes of two formats
local fresh, begin, over, away = ARGV[5], tonumber(ARGV[4]), tonumber(ARGV[8]), {}
local latest = now + math.max(0, tonumber(redis.call('HGET', KEYS[1], 'interval')) or 0)
local from = redis.call('ZCOUNT', KEYS[3], '-inf', '(' .. ARGV[4]) + over
local page = redis.call('ZRANGE', KEYS[3], from, from + PAGE - 1, 'WITHSCORES')
local rewritten, dropped = 0, 0
for i = 1, #page, 2 do
  local record, text, time = page[i], page[i + 1], tonumber(page[i + 1]) or math.huge
  local n, length, changed = count(record), #record, time > latest
  local known = length == FI or length == (string.byte(record) or 0) + 5
    or length == LC0I and string.sub(record, 1, 8) == '\8\0\0\0\0\0\0\0'
  text = changed and at or text
  if n == 0 or not known then
    away[#away + 1], changed, dropped = record, false, dropped + 1
  elseif length ~= #fresh or string.sub(record, 1, #ARGV[12]) ~= ARGV[12] then
    fresh = add(text, packed(fresh, n))
    away[#away + 1], changed = record, true
  elseif changed then
    redis.call('ZADD', KEYS[3], text, record)
  end
  if changed then
    rewritten = rewritten + 1
  end
end
local size, last = redis.call('ZCARD', KEYS[3]) - #away, #page < 2 * PAGE
-- The next page begins with the time that this one ends with. A record of that time that was rewritten has a
-- new name, and so another place: it is read again. Those that were right are passed over.
local go = math.min(latest, math.floor(tonumber(page[#page] or begin) or latest))
over = go == begin and over + #page / 2 - rewritten - dropped or 0
redis.pcall('PUBLISH', ARGV[11], 'changed')
for i = 1, #away, ZREM do -- unpack puts them all on the stack of Lua, which is bounded
  redis.call('ZREM', KEYS[3], unpack(away, i, math.min(i + ZREM - 1, #away)))
end
return { go, over, last and 1 or 0, size, rewritten, dropped }
