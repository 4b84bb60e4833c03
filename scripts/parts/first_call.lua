-- first_call.lua: grants the first request to a limiter whose rate is given, and ends the script. No key of
-- the limiter exists. The general case does the same, and takes twice as long.

if seen.none and ARGV[1] == '0' and ARGV[12] == '' then
  local MOST, FULL, SECOND = 9007199254740992, 4294967295, 1000 -- as in the general case
  local rate, interval, keep = string.match(ARGV[13], '^(%d+) (%d+) (%d+) ')
  local most, ms, alive, all = tonumber(rate), tonumber(interval), tonumber(keep), tonumber(ARGV[4])
  if most <= MOST and ms > 0 and math.max(ms, alive) <= MOST and all <= most and all <= FULL then
    redis.call('HSET', KEYS[1], 'rate', rate, 'interval', interval, 'type', '0', 'keepAliveTime', keep,
      ARGV[2], ARGV[3] .. ' ' .. seen.at .. ' ' .. ARGV[4] .. ' ' .. seen.at)
    redis.call('ZADD', KEYS[3], seen.at, ARGV[5])
    if alive > 0 then
      alive = math.max(alive, ms + SECOND)
      redis.call('SET', KEYS[2], string.format('%d', most - all), 'PX', alive)
      redis.call('PEXPIRE', KEYS[1], alive)
      redis.call('PEXPIRE', KEYS[3], alive)
    else
      redis.call('SET', KEYS[2], string.format('%d', most - all))
    end
    return ARGV[8] == '1' and { 0, most, most - all, 0, ms, ms, 0 } or 0
  end
end
