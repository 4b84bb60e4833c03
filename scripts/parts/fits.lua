-- fits.lua: says whether the permits of a single request fit, and if not, when they will.
--
-- in:       all (the permits), held (what the request was granted when it was carried out before; false for a
--           new one), unfinished, gone, dead, more, free, value, rate, interval, now, us, timed, stamp, head,
--           since, astray, drift, asked, count, MOST, MANY, away
-- out:      fits, wait (us, as parts/due.lua has it; 0 if it fits, -1 if it never will),
--           again (nothing can be said yet: acquire.lua; more than the rate is refused all the same)
-- changes:  value, astray, drift
-- writes:   no
-- ends the script: no

local fits, wait = false, 0
local again = not held and all <= rate and (unfinished or dead > MANY or more and all > value)
if held then
  local TURN = 10000 -- us, as in parts/late.lua
  fits, wait = held >= all, held < all and TURN or 0
elseif all > rate then
  wait = -1
elseif not again then
  local n, taken, sums = all, 0, {}
  for _ = 1, 2 do -- the first time, due.lua may put the value right; then it sets wait
    fits = free or n <= value
    if fits or wait ~= 0 then
      break
    end
    -- include parts/due.lua
  end
end
