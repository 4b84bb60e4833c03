-- vouch.lua: for which rate the own value of a PER_CLIENT limiter is right. A client that changes the rate
-- cannot reach the values of other clients, so each value has a voucher: a field of the hash. Its name is
-- `session:` and the key of the value. All Clients with one ID share it, as they share the value. After
-- two changes of the rate, a note of each Client would vouch for a value that another one wrote between
-- the changes.
--
-- The field has the form of a session, and expires like one (sweep.lua): number 0, time, 0, 0, rate. A call
-- that finds it more than 10 s old renews it. Without it the value is rebuilt.

-- vouch notes that the value is right for the rate of now; or for none, if l.guessed.
local function vouch(l)
  l.hash('VOUCH', string.format('%016d %s 0 0 %d', 0, l.at, l.guessed and l.rate + 1 or l.rate))
end
