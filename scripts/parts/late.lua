-- late.lua: recognizes copies of a request. A session (sessions.lua) with this number or a higher one marks
-- the request as sent again, or as a late copy that no caller waits for: it is judged by the permits that
-- it was granted before, none for a late copy. A number that is FAR ahead cannot be one of this Client, and
-- is overwritten. The reply says that it may look again in a moment: even if another client has written the
-- field, this Client must not ask without a pause.
--
-- After it, held are these permits, nil for a new request; later are the us until it may look again.

local held, later = nil, 1
if f[5] and f[5] >= number then
  local FAR, TURN = 1000000000000, 10000 -- a million requests a second for eleven days; us
  local last, amount = string.match(f[5], '^(%d+) %d+ (%-?%d+) %d+')
  if last == number then
    held = math.max(0, tonumber(amount))
  elseif last and #last == #number and last - number <= FAR then
    held, later = 0, TURN
  end
end
