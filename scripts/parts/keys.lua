-- keys.lua: the commands on the keys of one limiter. Functions that work on any limiter call these three, as
-- l.hash, l.text and l.records, with the name of the command and its arguments without the key.
--
-- Some managed Redis services refuse a script unless each command is a literal text and each key is written
-- as KEYS[n]. So a command that is not here must be added. For the other limiters of all.lua, scripts.go
-- repeats this text with their numbers of keys. The most frequent commands stand first.
--
-- The callers of redis.pcall handle its errors: HMGET, GET and OLDEST are the first to name their key, and
-- find out its kind; INCRBY refuses texts that Lua takes for integers; HINT fails on a server without memory,
-- which does not matter.

local function hash(command, ...)
  if command == 'HSET' then
    return redis.call('HSET', KEYS[1], ...)
  elseif command == 'PTTL' then
    return redis.call('PTTL', KEYS[1])
  elseif command == 'HMGET' then
    return redis.pcall('HMGET', KEYS[1], ...)
  elseif command == 'HGET' then
    return redis.call('HGET', KEYS[1], ...)
  elseif command == 'HLEN' then
    return redis.call('HLEN', KEYS[1])
  elseif command == 'PEXPIRE' then
    return redis.call('PEXPIRE', KEYS[1], ...)
  elseif command == 'HINT' then
    return redis.pcall('HSET', KEYS[1], ...)
  elseif command == 'HSCAN' then
    return redis.call('HSCAN', KEYS[1], ...)
  elseif command == 'HDEL' then
    return redis.call('HDEL', KEYS[1], ...)
  elseif command == 'PERSIST' then
    return redis.call('PERSIST', KEYS[1])
  elseif command == 'VOUCHER' then
    return redis.call('HGET', KEYS[1], 'session:' .. KEYS[2])
  elseif command == 'VOUCH' then
    return redis.call('HSET', KEYS[1], 'session:' .. KEYS[2], ...)
  end
end

local function text(command, ...)
  if command == 'INCRBY' then
    return redis.pcall('INCRBY', KEYS[2], ...)
  elseif command == 'GET' then
    return redis.pcall('GET', KEYS[2])
  elseif command == 'SET' then
    return redis.call('SET', KEYS[2], ...)
  elseif command == 'PTTL' then
    return redis.call('PTTL', KEYS[2])
  elseif command == 'PEXPIRE' then
    return redis.call('PEXPIRE', KEYS[2], ...)
  elseif command == 'PERSIST' then
    return redis.call('PERSIST', KEYS[2])
  end
end

local function records(command, ...)
  if command == 'ZADD' then
    return redis.call('ZADD', KEYS[3], ...)
  elseif command == 'ZRANGE' then
    return redis.call('ZRANGE', KEYS[3], ...)
  elseif command == 'ZCARD' then
    return redis.call('ZCARD', KEYS[3])
  elseif command == 'ZRANGEBYSCORE' then
    return redis.call('ZRANGEBYSCORE', KEYS[3], ...)
  elseif command == 'ZREMRANGEBYRANK' then
    return redis.call('ZREMRANGEBYRANK', KEYS[3], ...)
  elseif command == 'OLDEST' then
    return redis.pcall('ZRANGE', KEYS[3], '0', '0', 'WITHSCORES')
  elseif command == 'PTTL' then
    return redis.call('PTTL', KEYS[3])
  elseif command == 'PEXPIRE' then
    return redis.call('PEXPIRE', KEYS[3], ...)
  elseif command == 'ZCOUNT' then
    return redis.call('ZCOUNT', KEYS[3], ...)
  elseif command == 'ZREVRANGEBYSCORE' then
    return redis.call('ZREVRANGEBYSCORE', KEYS[3], ...)
  elseif command == 'ZREM' then
    return redis.call('ZREM', KEYS[3], ...)
  elseif command == 'ZSCORE' then
    return redis.call('ZSCORE', KEYS[3], ...)
  elseif command == 'UNLINK' then
    return redis.call('UNLINK', KEYS[3])
  elseif command == 'PERSIST' then
    return redis.call('PERSIST', KEYS[3])
  end
end
