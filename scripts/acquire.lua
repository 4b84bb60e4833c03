-- acquire.lua: takes permits if they are there.
--
-- KEYS, ARGV, errors: common.lua
-- ARGV[2]  the permits asked for
-- ARGV[3]  the records to write, of 21 bytes each, one behind the other, which hold as many
-- Reply:   0 if they were taken, otherwise the ms until they are there; if it asks for numbers,
--          {that, rate, permits left (may be negative), ms until all are back}
-- Error:   EXCEEDS, the permits and the rate, when more is asked for than can ever be there

if n > rate then
  return redis.error_reply('EXCEEDS ' .. ARGV[2] .. ' ' .. string.format('%.0f', rate))
end

-- A request that was sent again has been granted if its record is there, also when it took the
-- last permits. A first copy that arrives late finds the record by NX.
local records = ARGV[3]
if found and found[1] then
  wait = 0
elseif wait == 0 then
  local added, stamp = 0, string.format('%d', now)
  for i = 1, #records, 21 do
    local record = #records == 21 and records or string.sub(records, i, i + 20)
    added = added + redis.call('ZADD', KEYS[3], 'NX', stamp, record)
  end
  if added > 0 then
    step = value == stored and '-' .. ARGV[2] or nil
    value = value - n
  end
end
