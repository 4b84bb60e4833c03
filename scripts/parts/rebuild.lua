-- rebuild.lua: rebuilds the own value of a PER_CLIENT limiter, for a call whose session is not that of the
-- Client: another session may have written the value for another rate, so that none vouches for it.
--
-- in:       own, rate, gone, count, value
-- out:      none
-- changes:  value
-- writes:   no
-- ends the script: no

if own then
  local sum, rank = 0, gone
  -- include parts/outstanding.lua
  value = rate - sum
end
