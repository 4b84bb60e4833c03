-- take.lua: takes permits of a bucket, or gives them back.
--
-- KEYS[1]  a time in µs since 1970, of 16 digits, and the tokens it had, below 0 if they are a debt, as in
--          "17000000000000002.5": Redis keeps whole tokens as one number. No key is a full bucket
-- ARGV[1]  the permits, negative if they are given back, 0 to look
-- ARGV[2]  the capacity
-- ARGV[3]  the tokens that come in a second, which may be a fraction
-- ARGV[4]  when the permits to give back come back with time, in µs since 1970; none: never. Where
--          permits are taken, 1 takes them whatever is left
-- Reply:   the permits left, below 0 a debt; when all are back, in µs; the same in µs since 1970, 0 if
--          nothing was taken; when the permits are back, in µs
--
-- bucket.go has the same operations in the same order, so that both decide alike.

local MOST = 9007199254740992 -- 2^53: up to here a double holds every integer
local MOST_PERMITS = 2 ^ 40
local MOST_SECONDS = 10 * 366 * 86400 -- until a debt is paid
local LONGEST, DIGITS = 64, 16 -- bytes: a state has fewer, its time as many
local NS = 1000000000 -- of a second
local PARTS = 562949953421312 -- 2^49, of the time in which a bucket fills: wait in bucket.go
local n, capacity, per_second = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local stamp = tonumber(ARGV[4])
local value = redis.call('GET', KEYS[1]) or ''
if #value > LONGEST then -- longer than any state, and slow to read
  value = ''
end

-- Most calls take permits that are there. The rest of the script judges them alike, but takes longer.
if n > 0 and not stamp and per_second <= NS then
  local there, last = capacity, now
  if value ~= '' then
    there, last = tonumber(string.sub(value, DIGITS + 1)), tonumber(string.sub(value, 1, DIGITS))
  end
  if there and last and there >= 0 and last <= now then
    local span = now - last
    local part = span % 1000000
    local left = there + ((span - part) / 1000000 + part / 1000000) * per_second
    if left > capacity then
      left = capacity
    end
    left = left - n
    if left >= 0 then
      local fill = capacity / per_second * 1000000
      local reset = math.ceil((capacity - left) / per_second * 1000000 + (fill / PARTS - 0.0005))
      redis.call('SET', KEYS[1], string.format('%016d%.17g', now, left), 'PX', math.floor(reset / 1000) + 1)
      return {left, reset, now + reset} -- Redis drops fractions
    end
  end
end

local charge = n > 0 and stamp
if n < 0 and stamp then -- tokens that have come are not given back
  n = math.min(0, math.max(n, -(stamp - now) / 1000000 * per_second))
end
local last, tokens = string.match(value, '^(' .. string.rep('%d', DIGITS) .. ')([%d%.e%+%-]+)$')
tokens, last = tonumber(tokens), tonumber(last)
-- The key may hold anything: unreadable data are a full bucket.
if not tokens or not last or tokens < -MOST_PERMITS then
  tokens, last = capacity, now
end
last = math.min(last, MOST)

local function at(time)
  local span = math.abs(time - last)
  local part = span % 1000000 / 1000000
  local change = (math.floor(span / 1000000) + part) * per_second
  if time < last then
    return tokens - change
  end
  return math.min(tokens + change, capacity)
end

local function enough(left)
  return left >= 0 or -left / per_second * NS < 1
end

-- See wait in bucket.go.
local function wait(missing)
  if enough(-missing) then
    return 0
  end
  local slack = math.max(capacity, missing) / per_second * 1000000 / PARTS - 0.0005
  return math.ceil(missing / per_second * 1000000 + slack)
end

local function save(reset)
  redis.call('SET', KEYS[1], string.format('%016d%.17g', last, tokens), 'PX', math.floor(reset / 1000) + 1)
end

-- whole returns the whole tokens, below 0 those of a debt.
local function whole(number)
  return math.floor(enough(number) and math.max(0, number) or number)
end

local there, debt = at(now), math.min(0, tokens)
local far = now < last and not enough(there + capacity - debt)
if far then -- the clock was set far back: start over, empty
  there, tokens, last = debt, debt, now
end
if n == 0 or n > 0 and not charge and not enough(there - n) then
  local reset = wait(capacity - there)
  if n > 0 and (far or redis.call('PTTL', KEYS[1]) < 0) then
    save(reset)
  end
  return {whole(there), reset, 0, wait(math.max(n, 1) - there)}
end
local lowest = -math.min(MOST_PERMITS - capacity, MOST_SECONDS * per_second)
tokens, last = math.max(lowest, math.min(there - n, capacity)), now
local reset = wait(capacity - tokens)
if tokens == capacity then
  redis.call('UNLINK', KEYS[1])
else
  save(reset)
end
return {whole(tokens), reset, now + reset}
