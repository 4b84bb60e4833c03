-- bad.lua: the errors of a limiter that cannot be read.

-- badKey returns the error for a key: of the wrong kind, or as Redis gives it.
local function badKey(reply, key)
  return string.find(reply.err, '^WRONGTYPE') and redis.error_reply('BADKEY ' .. key) or reply
end

-- badField returns the error for the first field that is no integer up to 2^53, nil if there is none.
local function badField(f)
  for i, name in ipairs({ 'rate', 'interval', 'type', 'keepAliveTime' }) do
    local n = tonumber(f[i] or 0)
    if not n or n % 1 ~= 0 or math.abs(n) > MOST then
      local SHOWN = 40 -- bytes: the error is a line that a person reads
      local shown = string.gsub(string.sub(f[i], 1, SHOWN), '[^%w%p ]', '?')
      return redis.error_reply('BADFIELD ' .. name .. ' "' .. shown .. '"')
    end
  end
end
