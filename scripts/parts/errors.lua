-- errors.lua: says why a limiter cannot be read: first the hash, then its type, and only then the keys of the
-- type. Before it: kind and given are those of plain.lua; replaced is true if the call sets another rate in
-- place of what the fields say. After it, unread is true if they cannot be read then.

local unread = false
do
  local KINDS, MOST = { 'hash', 'string', 'zset' }, 9007199254740992 -- 2^53
  local names = { 'rate', 'interval', 'type', 'keepAliveTime' }
  local f = redis.pcall('HMGET', KEYS[1], names[1], names[2], names[3], names[4])
  local replies = { f, redis.pcall('GET', KEYS[2]), redis.pcall('ZRANGE', KEYS[3], '0', '0') }
  for i = 1, #KINDS do
    local err = type(replies[i]) == 'table' and replies[i].err
    if err and string.find(err, 'WRONGTYPE', 1, true) then
      return redis.error_reply('BADKEY ' .. i .. ' ' .. KINDS[i])
    elseif err then -- such as a missing right
      return replies[i]
    end
    local there = f[1] and f[2] and f[3]
    local own = f[3] == '1' and '1' or '0'
    if not there and given == '' then
      return redis.error_reply('NOTINIT no rate is set')
    elseif there and own ~= kind then
      return redis.error_reply('OTHERTYPE ' .. own)
    end
  end
  for i = 1, #names do
    local n = names[i] == 'type' and 0 or tonumber(f[i] or 0) -- any type but 1 is OVERALL
    if not n or n % 1 ~= 0 or math.abs(n) > MOST then
      unread = true
      if f[1] and f[2] and f[3] and not replaced then
        local SHOWN = 40 -- bytes: the error is a line that a person reads
        local shown = string.gsub(string.sub(f[i], 1, SHOWN), '[^%w%p ]', '?')
        return redis.error_reply('BADFIELD ' .. names[i] .. ' "' .. shown .. '"')
      end
    end
  end
end
