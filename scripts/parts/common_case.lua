-- common_case.lua: judges a request in the common case (common_read.lua), and ends the script. Everything
-- else falls through, before anything is written, to the general case, which decides the same and takes twice
-- as long.
--
-- It creates no function, because Lua creates a function anew in each call.
--
-- It leaves what it read in seen, for the general case.

local seen
do
  -- include parts/common_time.lua
  local kind, amount, given, asked, lone = ARGV[1], ARGV[4], ARGV[13] or '', ARGV[8] == '1', not ARGV[15]
  local usual = #ARGV == 5
    or (ARGV[7] or '') .. (ARGV[9] or '') .. (ARGV[12] or '') .. (ARGV[14] or '') == ''
  -- include parts/common_read.lua
  if right and (wait or redis.call('ZADD', KEYS[3], 'NX', at, ARGV[5]) == 1) then
    local taken, step = wait and 0 or all, '-' .. amount
    if not wait then
      local session = ARGV[3] .. ' ' .. at .. ' ' .. amount .. ' ' .. at .. (own and ' ' .. f[1] or '')
      local refused = redis.pcall('HSET', KEYS[1], ARGV[2], session)
      if type(refused) == 'table' then -- no right to HSET: take the record back
        redis.call('ZREM', KEYS[3], ARGV[5])
        return refused
      end
    end
    -- include parts/common_write.lua
    local reset, later = first[1] and math.ceil(latest) + interval - now or 0, interval
    if ends then
      reset, later = math.min(reset, ends), math.min(later, ends)
      wait = wait and math.min(wait, ends * 1000 - us)
    end
    later = wait and reset or later
    return asked and { 0, rate, value - taken, reset, later, interval, 0, wait and 0, wait } or wait or 0
  end
  seen = {
    none = none, hash = f, text = text, oldest = oldest,
    now = now, us = us, timed = at ~= ARGV[6], at = at,
  }
end
