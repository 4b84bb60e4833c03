-- record.lua: stands behind acquire.lua and writes the records of what it grants. A first copy of a
-- request that arrives after a second one finds its records there, by NX; where that was granted a part
-- alone, or its records were shrunk since, the client takes back what the first one takes (withdraw.lua).
-- One with a mark has been told by that (seen.lua), and a record like its own is another's.

if taken > 0 and not held then
  local records, left, added = ARGV[3], taken, 0
  for i = 1, #records, size do
    local record, n = string.sub(records, i, i + size - 1), math.min(left, 4294967295)
    local more, replaced = extra and count(extra) or 4294967296, nil
    if n + more <= 4294967295 then
      record, replaced, extra = packed(record, n + more), extra, nil
    elseif taken < all then
      record = packed(record, n)
    end
    if mark then
      put(string.format('%d', stamp), record)
      added = 1
    else
      added = added + redis.call('ZADD', KEYS[3], 'NX', string.format('%d', stamp), record)
    end
    if replaced then -- after the new one is there (last.lua)
      redis.call('ZREM', KEYS[3], replaced)
    end
    left = left - n
    if left == 0 then
      break
    end
  end
  if added > 0 then
    step = value == stored and taken == all and '-' .. ARGV[2] or nil
    value = value - taken
  end
end
