-- late_old.lua: recognizes copies of a request by the session.
--
-- A number that is FAR ahead cannot be one of this Client, and is ignored: the next request overwrites the
-- field. Any other higher number marks the request as a late copy. Its reply says that it may look again in
-- 10 ms: even if another client has written the field, this Client must not ask without a break.

-- lateness returns what the session says of its last request (session.lua), where that may matter, for the
-- request of a number. withdraws asks for it in any case. The result has
--   late      false, unless the session has this number or a higher one: then the request was sent again or
--             is a late copy, and late is the us until it may look again: 1, or 10 ms for a higher number
--   same      the session has this number
--   last      the number of the session's last request; nil where it does not matter
--   dated, amount, where, rate  its time; the permits it took, or minus those it gave back; the time of
--             their records (for a release as in session.lua); the rest of the field
--   held      the permits that this request was granted when it was carried out before, 0 for a late copy;
--             false for a new request
local function lateness(l, number, withdraws)
  local FAR, TURN = 1000000000000, 10000 -- a million requests a second for eleven days; us
  local done = { late = false, held = false }
  if not (l.session and (l.session >= number or withdraws)) then -- the number comes first in the field
    return done
  end
  local last, dated, amount, where, rate = string.match(l.session, '^(%d+) (%d+) (%-?%d+) (%d+)(.*)$')
  if not last or #last ~= #number or last - number > FAR then
    return done
  end
  done.last, done.dated, done.amount, done.where, done.rate = last, dated, tonumber(amount), where, rate
  done.same = last == number
  done.late = last >= number and (done.same and 1 or TURN)
  done.held = done.late and (done.same and done.amount or 0)
  if done.same then -- WAIT counts the writes of its own connection, not those of an earlier copy's
    l.hash('HSET', l.field, l.session)
  end
  return done
end
