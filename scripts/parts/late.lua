-- late.lua: reads what the session says of its last request (session.lua), where that may matter.
--
-- ARGV[3]  the number of this request; within a session the numbers only grow
--
-- in:       session, withdraws
-- out:      late (the session has this number or a higher one: the request was sent again or is a late copy),
--           last (the number of the session's last request; nil where nobody needs it), dated (its time),
--           amount (the permits that request took, or minus those it gave back),
--           where (the time of their records; for a release as in session.lua),
--           rateThen (the rest of the field: the rate, for a PER_CLIENT limiter)
-- changes:  none
-- writes:   yes
-- ends the script: no

local late, last, dated, amount, where, rateThen = false, nil, nil, nil, nil, nil
if session and (session >= ARGV[3] or withdraws) then -- the number comes first in the field
  last, dated, amount, where, rateThen = string.match(session, '^(%d+) (%d+) (%-?%d+) (%d+)(.*)$')
  amount, late = tonumber(amount), last and last >= ARGV[3]
  if late and last == ARGV[3] then -- a copy by another connection: WAIT is for what that one has written
    redis.call('HSET', KEYS[1], ARGV[2], session)
  end
end
