-- packed.lua: writes the permits of a record.

-- packed returns the same record with another number of permits.
local function packed(member, n)
  return string.sub(member, 1, -5)
    .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256, math.floor(n / 16777216))
end
