-- remove.lua: removes the records that find.lua found, and puts the value right. If no other record counts,
-- it leaves the removal to finish.lua (away), which says why.
--
-- in:       given, whole, part, rest, away, head, gone, value, rate, since, astray, packed,
--           now, timed, interval
-- out:      none
-- changes:  away, head, value, since, astray
-- writes:   yes
-- ends the script: no

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
