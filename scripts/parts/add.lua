-- add.lua: adds a record.

-- add adds a record with a time (a text), and returns it. If the same record is there already, the last three
-- of its random bytes are counted up until it is new, by a step that depends on the time, so that no crafted
-- records make it count for long. A record that is too short is made longer.
local function add(time, member)
  local step = 2 * (now % 1000 * 1000 + us) + 1 -- odd, so that it reaches all that three bytes hold
  for _ = 1, 16777216 do -- 2^24
    if redis.call('ZADD', KEYS[3], 'NX', time, member) == 1 then
      break
    end
    member = string.rep('\3', 8 - #member) .. member
    local a, b, c = string.byte(member, -7, -5)
    local r = a + b * 256 + c * 65536 + step
    member = string.sub(member, 1, -8)
      .. string.char(r % 256, math.floor(r / 256) % 256, math.floor(r / 65536) % 256)
      .. string.sub(member, -4)
  end
  return member
end
