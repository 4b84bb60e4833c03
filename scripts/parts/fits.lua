-- fits.lua: judges the single request of one member of a Group.

-- fits returns whether the permits of a request r (take.lua) fit; the us until they will (due.lua), 0 if they
-- do, -1 if they never will; and whether nothing can be said yet, as in acquire.lua. held is from late.lua.
local function fits(l, r, held, asked)
  local TURN = 10000 -- us, as in late.lua
  if held then
    return held >= r.all, held < r.all and TURN or 0, false
  elseif r.all > l.rate then
    return false, -1, false
  elseif l.dead > MANY or l.more and r.all > l.value then
    return false, 0, true
  end
  -- include parts/name_taken.lua
  if nameTaken(l, r) then
    return false, 0, true
  end
  -- include parts/due.lua
  local fit, wait, sums = false, 0, {}
  for _ = 1, 2 do -- the first turn may correct the value, the second computes the wait
    fit = l.free or r.all <= l.value
    if fit or wait ~= 0 then
      break
    end
    wait = due(l, r.all, 0, r.stamp, sums, asked)
  end
  return fit, wait, false
end
