-- find.lua: finds the records to take permits back from: the newest ones of this Client, and for what they do
-- not hold the oldest ones, whoever wrote them. It changes nothing; remove.lua does.
--
-- The newest records of others are left alone: a permit that comes back out of one is granted again, while
-- the grant of it may have been used, and counts for most of an interval. The oldest records cost least:
-- they would have come back next. A record of 8 bytes has no room for a Client's mark, and the record of a
-- slot (acquire.lua) belongs to several Clients, so neither is anybody's own. But records dated exactly as a
-- grant that is withdrawn count as own ones, for they expire with it.
--
-- ARGV[5]   records of this Client, or one: its first bytes are the mark (internal/wire/record.go)
--
-- in:       wanted (the permits to take back), latest (the score of the newest own record to take),
--           ends (the score of the newest record to take), head, expired, gone, count
-- out:      given (how many of the wanted permits were found), whole (the records to remove),
--           part (the record that keeps some of its permits, nil if there is none),
--           rest (the permits it keeps), other (the newest record that is not own, of those to take; or nil),
--           unseen (there may be more, beyond the 3,000 records that a call reads)
-- changes:  none
-- writes:   no
-- ends the script: no

local given, whole, part, rest, other, unseen = 0, {}, nil, 0, nil, false
if head[1] and wanted > 0 then
  -- The first page is enough for most calls. NEWEST and OLDEST are the records a call reads at most; the
  -- client sends another one for the rest.
  local PAGE, NEWEST, OLDEST = 100, 1000, 2000
  local oldest, found = string.format('(%d', expired), {}
  -- The header, the mark of Go and that of the Client: 1 + 2 + 6 bytes of a Bc0I/16, 8 + 2 + 2 of an Lc0I,
  -- 1 + 2 + 2 of a Bc0I/8.
  local first, second = string.byte(ARGV[5] or '', 1, 2)
  local BC0I16, BC0I8, LC0I = 9, 5, 12
  local LONG = 16 -- the length byte of a Bc0I/16
  local length = first == LONG and BC0I16 or first == 8 and (second == 0 and LC0I or BC0I8) or 0
  local mark = string.sub(ARGV[5] or '', 1, length)
  local shared = length == 0 or string.find(mark, '\210GoR', 1, true) ~= nil
  local floor = oldest
  if shared then
    floor = (tonumber(latest) or 0) > expired and latest or '+inf'
  end
  for look = 1, 2 do
    local newest, most = look == 1, look == 1 and NEWEST or OLDEST
    for from = 0, most - PAGE, PAGE do
      local page = newest and redis.call('ZREVRANGEBYSCORE', KEYS[3], latest, floor, 'LIMIT', from, PAGE)
        or redis.call('ZRANGEBYSCORE', KEYS[3], oldest, ends, 'LIMIT', from, PAGE)
      for i = 1, #page do
        local member = page[i]
        local fits = not newest or shared or string.sub(member, 1, length) == mark
        if fits and not found[member] and given < wanted then
          local n = count(member)
          other = not newest and member or other
          if given + n > wanted then
            part, rest, given = member, given + n - wanted, wanted
            break
          end
          given = given + n
          found[member] = true
          whole[#whole + 1] = member
        end
      end
      unseen = given < wanted and #page == PAGE and from == most - PAGE
        and (not newest or #whole == most) and redis.call('ZCARD', KEYS[3]) - gone > #whole
      if #page < PAGE or given == wanted then
        break
      end
    end
    if unseen or given == wanted then
      break
    end
  end
end
