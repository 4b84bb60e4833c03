-- late.lua: reads what the session says of its last request (session.lua), where that may matter.
--
-- A number that is FAR ahead is none of this Client, and says nothing: the next request overwrites the
-- field. A number that may be one of a later request tells a late copy, which is answered that it may look
-- again in late us, and no earlier: whoever has written the field, the Client must not ask without a break.
--
-- ARGV[3]  the number of this request; within a session the numbers only grow
--
-- in:       session, withdraws
-- out:      late (false, unless the session has this number or a higher one: then the request was sent again
--           or is a late copy, and late is the us until it may look again: 1, or 10 ms for a higher number),
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
  local FAR, TURN = 1000000000000, 10000 -- a million requests a second for eleven days; us
  if last and (#last ~= #ARGV[3] or last - ARGV[3] > FAR) then
    last, dated, amount, where, rateThen = nil, nil, nil, nil, nil
  end
  amount, late = tonumber(amount), last and last >= ARGV[3] and (last == ARGV[3] and 1 or TURN)
  if late and last == ARGV[3] then -- a copy by another connection: WAIT is for what that one has written
    redis.call('HSET', KEYS[1], ARGV[2], session)
  end
end
