-- counter.lua: takes permits of a sliding window of counts, or gives them back.
--
-- KEYS[1]  numbers as a text: the width of a part of time, in us; the number of the newest
--          part, which begins at that multiple of the width; its permits, and those of each
--          earlier part. It expires when all permits are back
-- ARGV[1]  the permits, negative if they are given back, 0 to look
-- ARGV[2]  the rate
-- ARGV[3]  the width of a part, in us
-- ARGV[4]  the parts of the interval; it covers some of one more
-- ARGV[5]  when the permits to give back were taken, in us since 1970; none: the newest permits. Where
--          permits are taken, 1 takes them whatever is left
-- Reply:   the permits left, below 0 a debt; when all are back, in us; the time, in us since 1970, 0 if
--          nothing was taken; when the permits are back, in us

local MOST = 2 ^ 40 -- permits
local LONGEST = 2047 -- bytes; a text has fewer
local MOST_PARTS = 101
local MOST_DIGITS = 16

local n, rate, width, parts = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local text = redis.call('GET', KEYS[1]) or ''

-- Most calls take permits that are there, beside parts of this width. The rest of the script judges them
-- alike, but takes longer.
if n > 0 and not ARGV[5] and #text <= LONGEST then
  local wide, last, old = string.match(text, '^(%d+) (%d+)( %d[%d ]*)$')
  if text == '' then
    wide, last, old = ARGV[3], 0, ''
  end
  local newest = math.floor(now / width)
  local age = wide == ARGV[3] and newest - last or -1 -- of the part that was the newest
  if age >= 0 then
    local offset, full, oldest = now - newest * width, 0, 0
    local written = {wide, string.format('%d', newest), '0'}
    if age <= parts then
      for i = 1, age - 1 do
        written[i + 3] = '0'
      end
      for permits in string.gmatch(old, '%d+') do
        if age <= parts then
          written[age + 3] = permits
        end
        if age < parts then
          full = full + permits
        elseif age == parts then
          oldest = permits
        end
        age = age + 1
      end
    end
    local left = rate - full - math.ceil(oldest * ((width - offset) / width)) - n
    if left >= 0 then
      written[3] = string.format('%d', written[3] + n)
      local reset = (parts + 1) * width - offset
      redis.call('SET', KEYS[1], table.concat(written, ' '), 'PX', math.ceil(reset / 1000) + 1)
      return {left, reset, now}
    end
  end
end

-- The permits of each part, by its age. The key may hold anything: unreadable data count as the
-- rate, taken now.
local numbers, right = {}, #text <= LONGEST and not string.find(text, '[^%d ]')
for number in string.gmatch(right and text or '', '%d+') do
  numbers[#numbers + 1] = tonumber(number)
  right = right and #number <= MOST_DIGITS
end
right = right and #numbers > 2 and numbers[1] > 0
local unknown = text ~= '' and not right
local later = right and numbers[1] * numbers[2] > now -- the clock was set back
-- After a change of the limit, parts have another width. Earlier permits stay taken for their old
-- interval: the old parts remain until the key expires.
local kept, ttl, longer = parts, 0, false
if right and numbers[1] ~= width and not later then
  ttl = redis.call('PTTL', KEYS[1])
  local same = math.ceil(parts * width / numbers[1]) -- old parts of the interval
  if ttl > math.ceil((parts + 1) * width / 1000) + 1 and same < MOST_PARTS then
    kept, parts, width, longer = MOST_PARTS - 1, same, numbers[1], true
  end
end
local newest = math.floor(now / width)
local offset = now - newest * width
if unknown then
  numbers = {width, newest, rate}
end
-- Parts of another width count for the parts in which they end. Future parts count for the newest.
local counts, full, eldest = {}, 0, 0 -- the ages of parts are 0 to eldest
for i = 3, math.min(#numbers, MOST_PARTS + 2) do
  local ends = (numbers[2] - i + 4) * numbers[1] - 1
  local age = math.max(0, newest - math.floor(ends / width))
  if age <= kept and numbers[i] > 0 then
    local permits = math.min(numbers[i], MOST - (counts[age] or 0))
    counts[age] = (counts[age] or 0) + permits
    full = age < parts and full + permits or full
    eldest = math.max(eldest, age)
  end
end

local function weight(at)
  return (width - at) / width
end
local function weighed(permits, at)
  return math.ceil(permits * weight(at))
end
local last = weighed(counts[parts] or 0, offset)
local used = full + last

-- until_room returns the first offset at which a part counts for no more than room.
local function until_room(oldest, room)
  if oldest <= room then
    return 0
  end
  local at = math.floor(width - room * width / oldest)
  for _ = 1, 4 do
    if weighed(oldest, at) <= room then
      break
    end
    at = at + 1
  end
  return at
end

local stamp = tonumber(ARGV[5])
local taken, retry, reset = now, 0, 0
local charge, look = n > 0 and stamp, n == 0
if charge then
  n = math.min(n, MOST - used)
end
if n < 0 and stamp then -- later permits stay taken
  local age = math.max(0, newest - math.floor(stamp / width))
  local back = math.min(-n, counts[age] or 0)
  if age < parts then
    counts[age], full = (counts[age] or 0) - back, full - back
  elseif age == parts then
    counts[age] = (counts[age] or 0) - back
    last = weighed(counts[age], offset)
  end
elseif n < 0 and used <= -n and not longer then
  redis.call('UNLINK', KEYS[1])
  return {rate, 0, 0}
elseif n < 0 then
  local rest = -n
  for age = 0, math.min(eldest, parts - 1) do
    local back = math.min(rest, counts[age] or 0)
    counts[age], full, rest = (counts[age] or 0) - back, full - back, rest - back
  end
  if rest > 0 then
    last = math.max(0, last - rest)
    counts[parts] = math.floor(last / weight(offset))
  end
elseif charge or math.max(n, 1) <= rate - used then
  counts[0], full = (counts[0] or 0) + n, full + n
else
  taken, n = 0, math.max(n, 1)
  local rest = full
  for ended = 0, parts do
    local oldest = counts[parts - ended] or 0
    if ended > 0 then
      rest = rest - oldest
    end
    local room = rate - n - rest
    if room >= 0 then
      retry = ended * width + until_room(oldest, room) - offset
      break
    end
  end
end

local written = {string.format('%.0f %.0f', width, newest)}
for age = 0, eldest do
  local permits = counts[age] or 0
  written[age + 2] = string.format('%.0f', permits)
  if permits > 0 and reset == 0 then
    reset = math.max(0, (parts + 1 - age) * width - offset)
  end
end
-- A refusal converts no widths, so that parts do not move later again and again. All permits are
-- back when the key expires.
local turned = not longer and numbers[1] == width and numbers[2] ~= newest
local write, life = taken > 0 or unknown or later or turned, math.ceil(reset / 1000) + 1
if look then
  write, taken = false, 0
end
if ttl > 0 and (longer or not write) then
  retry, reset, life = math.min(retry, ttl * 1000), math.min(reset, ttl * 1000), ttl
end
if write and (reset > 0 or longer) then
  redis.call('SET', KEYS[1], table.concat(written, ' '), 'PX', life)
elseif write then -- no permit is out
  redis.call('UNLINK', KEYS[1])
end
return {rate - full - last, reset, taken, retry}
