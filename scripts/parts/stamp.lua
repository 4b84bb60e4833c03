-- stamp.lua: the time that the records of a grant are dated with.
--
-- ARGV[5]   records, one behind the other; ARGV[12]  the ms of a slot of time, missing or 0 for none
--
-- in:       all (the permits that are asked for), now, interval, span, keep, givenRate, FULL
-- out:      alive (keep, as it is set), lasts (the ms that the keys must live for if their time to live is
--           not to be set: finish.lua; nil where it is always set), stamp (the time),
--           slot (the ms of a slot, 0 for none), size (the bytes of a record: 21 at most)
-- changes:  keep
-- writes:   no
-- ends the script: no

local alive = keep -- before it is made longer
local stamp, slot, size = now, ARGV[12] and tonumber(ARGV[12]) or 0, #ARGV[5]
if all > FULL then -- ARGV[5] is more than one record
  size = size / math.ceil(all / FULL)
end
if slot > 0 then
  slot = math.max(1, math.min(interval, slot))
  stamp = math.ceil(now / slot) * slot
  if keep > 0 then -- a limiter outlives its permits by a second (parts/lifetime.lua), also those of a slot
    local SECOND = 1000
    keep = math.max(keep, span + slot + SECOND)
  end
end
local lasts = nil
if givenRate and keep > 0 then
  local SECOND, PART = 1000, 8 -- ms; an eighth less does no harm, and saves three commands in most calls
  lasts = math.max(math.ceil(keep - keep / PART), span + slot + SECOND)
end
