-- remove.lua: removes the records that find.lua found, and puts the value right. If no other record counts,
-- it leaves the removal to finish.lua (away), which says why.
--
-- Where it takes others' records, it notes up to which time, for a withdrawal may miss one of them
-- (withdraw.lua). From then on a Client may hold permits without a record of its own: giving these back takes
-- its newest record, which may be that of a grant that is to be withdrawn. So later takings are noted, own
-- records included; and so are those while calls of Groups of this Client have not ended, which other
-- requests do not withdraw. The note has the form of a session, and ends like one (session.lua).
--
-- ARGV[8]   groups, if there are such calls
--
-- in:       given, whole, part, rest, other, away, head, gone, value, rate, since, astray, packed,
--           now, timed, interval, MOST, total
-- out:      none
-- changes:  away, head, value, since, astray, total
-- writes:   yes
-- ends the script: no

total = total and total - given
if given > 0 then
  local before = string.match(redis.call('HGET', KEYS[1], 'session:freed') or '', '^%d+ %d+ 0 (%d+)$')
  local at = tonumber(before or '') or 0
  if before or other or ARGV[8] == 'groups' then
    for _, newest in ipairs({ whole[1] or part, other }) do
      at = math.max(at, math.ceil(tonumber(redis.call('ZSCORE', KEYS[3], newest)) or now))
    end
    redis.call('HSET', KEYS[1], 'session:freed', string.format('%016d %d 0 %d', 0, now, math.min(MOST, at)))
  end
end
if head[1] and not part and #whole == redis.call('ZCARD', KEYS[3]) - gone then
  away, head, since, value = whole, {}, nil, rate
elseif part or whole[1] then -- also records of 0 permits
  local PAGE = 100 -- records in one ZREM: unpack puts them all on the stack of Lua, which is bounded
  if part then
    local at, member = redis.call('ZSCORE', KEYS[3], part), packed(part, rest)
    -- include parts/put.lua
    redis.call('ZREM', KEYS[3], part)
  end
  for i = 1, #whole, PAGE do
    redis.call('ZREM', KEYS[3], unpack(whole, i, math.min(i + PAGE - 1, #whole)))
  end
  value = math.min(rate, value + given)
  head = redis.call('ZRANGE', KEYS[3], gone, gone, 'WITHSCORES')
  -- include parts/since.lua
end
