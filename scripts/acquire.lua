-- acquire.lua: takes permits if they are there.
--
-- KEYS, ARGV[1..4], errors: common.lua
-- ARGV[5]   the permits asked for
-- ARGV[6..] the records to write, which together hold as many
-- Reply:    0 if they were taken, otherwise the ms until they are there; if it asks for numbers,
--           {that, rate, permits left (may be negative), ms until all are back}
-- Error:    EXCEEDS and the rate, when more is asked for than can ever be there

if n > rate then
  return redis.error_reply('EXCEEDS ' .. string.format('%.0f', rate))
end

-- A request that was sent again has been granted if its record is there, also when it took the
-- last permits. A first copy that arrives late finds the record by NX.
if ARGV[3] == '1' and redis.call('ZSCORE', KEYS[3], ARGV[6]) then
  wait = 0
elseif wait == 0 then
  local added, stamp = 0, string.format('%d', now)
  for i = 6, #ARGV do
    added = added + redis.call('ZADD', KEYS[3], 'NX', stamp, ARGV[i])
  end
  if added > 0 then
    value = value - n
  end
end
