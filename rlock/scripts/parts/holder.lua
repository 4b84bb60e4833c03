-- holder.lua: finds the owner of the same process that holds a lock.
--
-- in:      owner (of the caller, as long as all of its process)
-- out:     holder (the last 15 digits of its number; 0 if that is none of this process)
-- changes: none
-- ends the script: no
-- writes:  no

local holder = 0
if redis.call('HLEN', KEYS[1]) == 1 then -- it is a lock
  local DIGITS = 15
  local field = redis.call('HKEYS', KEYS[1])[1]
  local id = string.match(owner, '^.*:')
  if id and #field == #owner and string.sub(field, 1, #id) == id then
    holder = tonumber(string.match(field, '%d+$', -DIGITS) or 0) or 0
  end
end
