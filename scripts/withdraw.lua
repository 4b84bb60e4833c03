-- withdraw.lua: takes back what an acquire was granted: all of it where its callers do not know the
-- answer, or what a late first copy has taken beyond that answer. Sent again it does no more.
--
-- KEYS, ARGV, errors: common.lua; ARGV[5] is set
-- ARGV[2]  its permits; ARGV[3] its records; ARGV[7] as in seen.lua
-- ARGV[first]  those of them to leave to it
-- Reply:   the permits that were taken back

local left, given = tonumber(ARGV[first]), 0
local excess = (held or 0) - left
away = {}
for i = head[1] and #found or 0, 1, -1 do
  if given < excess then
    local time, n = redis.call('ZSCORE', KEYS[3], found[i]), count(found[i])
    local rest = math.max(0, n - excess + given)
    if time and rest > 0 then -- drop.lua may have removed it
      put(time, packed(found[i], rest))
      redis.call('ZREM', KEYS[3], found[i])
    elseif time then
      away[#away + 1] = found[i]
    end
    given = time and given + n - rest or given
  end
end
if mark then
  redis.call('HSET', KEYS[1], mark, string.format('%d %s %d %d %d', now, number, left, stamp, oldest))
end
local none = not head[1] or redis.call('ZCARD', KEYS[3]) == #away
value = none and rate or math.min(rate, value + given)
local reply = given
