-- find.lua: which records make up the permits that are wanted back: the newest ones of a time, and of
-- before it. remove.lua takes them out.
--
-- in:       wanted, latest (the score to begin at), head, expired, gone, count
-- out:      given (how many of them there are), whole (the records that go), part (the one that shrinks, if any),
--           rest (the permits it keeps), unseen (whether there may be more, for a call looks at 2,000 records)
-- changes:  none
-- writes:   no
-- ends the script: no

local given, whole, part, rest, unseen = 0, {}, nil, 0, false
do
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
