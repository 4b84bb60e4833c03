-- holder.lua: finds an owner of the same process.
--
-- in:      owner (of the caller; all owners of a process have this length), named (another owner, or false)
-- out:     holder (the last 15 digits of its number; 0 if it belongs to another process)
-- changes: none
-- ends the script: no
-- writes:  no

local holder = 0
do
  local DIGITS = 15
  local id = string.match(owner, '^.*:')
  if id and named and #named == #owner and string.sub(named, 1, #id) == id then
    holder = tonumber(string.match(named, '%d+$', -DIGITS) or 0) or 0
  end
end
