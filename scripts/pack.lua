-- pack.lua: stands in front of the scripts that write records of their own making.

-- A record with another number of permits.
local function packed(member, n)
  return string.sub(member, 1, -5)
    .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256, math.floor(n / 16777216))
end
