-- find.lua: finds the records to take permits back from: the newest ones up to a given time. It changes
-- nothing; remove.lua does.
--
-- in:       wanted (the permits to take back), latest (the score to begin at), head, expired, gone, count
-- out:      given (how many of the wanted permits were found), whole (the records to remove),
--           part (the record that keeps some of its permits, nil if there is none),
--           rest (the permits it keeps),
--           unseen (there may be more, beyond the 2,000 records that a call reads)
-- changes:  none
-- writes:   no
-- ends the script: no

local given, whole, part, rest, unseen = 0, {}, nil, 0, false
do
  -- The first page is enough for most calls. LOOKED bounds the time of a call; the client sends another
  -- one for the rest.
  local PAGE, LOOKED = 100, 2000
  local oldest = string.format('(%d', expired)
  for from = 0, head[1] and wanted > 0 and LOOKED - PAGE or -1, PAGE do
    local newest = redis.call('ZREVRANGEBYSCORE', KEYS[3], latest, oldest, 'LIMIT', from, PAGE)
    for i = 1, #newest do
      local n = count(newest[i])
      if given + n > wanted then
        if given < wanted then
          part, rest = newest[i], given + n - wanted
        end
        given = wanted
        break
      end
      given = given + n
      whole[#whole + 1] = newest[i]
    end
    unseen = #whole == LOOKED and given < wanted and redis.call('ZCARD', KEYS[3]) - gone > LOOKED
    if #newest < PAGE or given == wanted then
      break
    end
  end
end
