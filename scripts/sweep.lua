-- sweep.lua: stands behind the scripts that leave a field in the hash by which a request is known when
-- it is sent again (fresh). Fields of clients that have gone are swept out when there are many: those
-- older than a minute, by the time in ms that they begin with.

if fresh and redis.call('HLEN', KEYS[1]) > 68 then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local kind = string.sub(all[i], 1, 7)
    if (kind == 'release' or kind == 'merged:') and (tonumber(string.match(all[i + 1], '^%d+')) or 0) < now - 60000 then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
end
