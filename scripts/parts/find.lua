-- find.lua: finds the records to take permits back from: the newest ones of this Client, and for permits
-- that they do not hold the oldest ones of any client. It changes nothing; remove.lua does.
--
-- The newest records of other Clients are left alone. Their permits may have been used, and count for most
-- of an interval; taken out of the records, they would be granted again. The oldest records cost least:
-- their permits would have come back next. A record of 8 bytes has no room for a Client's mark, so none
-- counts as own. But records dated exactly as a grant that is withdrawn count as own ones, for they expire
-- with it.
--
-- A reservation is settled by the names of its records. So a release takes them only where all other records
-- hold too few permits, as for permits that were reserved and used. The withdrawal of a reservation or lease
-- takes the records that it names, and no others.

-- include parts/reserved.lua

-- markOf returns the first bytes of this Client's records, by one of them (internal/wire/record.go): the
-- header, the mark of Go and that of the Client. It is empty where records have no mark of a Client.
local function markOf(record)
  -- 1 + 2 + 6 bytes of a Bc0I/16, 8 + 2 + 2 of an Lc0I, 1 + 2 + 2 of a Bc0I/8.
  local BC0I16, BC0I8, LC0I = 9, 5, 12
  local LONG = 16 -- the length byte of a Bc0I/16
  local first, second = string.byte(record, 1, 2)
  local length = first == LONG and BC0I16 or first == 8 and (second == 0 and LC0I or BC0I8) or 0
  return string.sub(record, 1, length)
end

-- leasedNow returns whether a record is that of a lease that has not ended (acquire.lua). Its permits are not
-- out: the Client that took them hands out what is left, so that it would be granted twice.
local function leasedNow(l, member)
  return leased(member) and tonumber(l.records('ZSCORE', member)) > l.now
end

-- find finds wanted permits. record is one of this Client, or those of a reservation, end to end; latest is
-- the score of the newest record to take. The result has
--   given         how many of the wanted permits were found
--   whole, part, rest  the records to remove; the one that keeps some of its permits, or nil; these permits
--   unseen        there may be more, beyond the 3,000 records that a call reads
local function find(l, wanted, record, latest)
  -- The first page is enough for most calls. NEWEST and OLDEST are the records a call reads at most; the
  -- client sends another one for the rest.
  local PAGE, NEWEST, OLDEST = 100, 1000, 2000
  local found = { given = 0, whole = {}, part = nil, rest = 0, unseen = false }
  if not l.head[1] or wanted <= 0 then
    return found
  end
  local mark, oldest, taken = markOf(record), string.format('(%d', l.expired), {}
  local size = math.floor(#record / math.ceil(wanted / FULL))
  if reserved(string.sub(record, 1, size)) or leased(record) then
    for from = 1, #record, math.max(1, size) do
      local member = string.sub(record, from, from + size - 1)
      local at = tonumber(l.records('ZSCORE', member) or nil)
      if at and at == tonumber(latest) and at > l.expired then
        found.given, found.whole[#found.whole + 1] = found.given + count(member), member
      end
    end
    return found
  end
  -- A record without the mark of a Client is taken by its name as well, if it is that of the grant.
  local dated = mark == '' and tonumber(l.records('ZSCORE', record) or nil)
  if dated and dated == tonumber(latest) and dated > l.expired and count(record) == wanted then
    found.given, found.whole[1] = wanted, record
    return found
  end
  local floor = oldest
  if mark == '' then
    floor = (tonumber(latest) or 0) > l.expired and latest or '+inf'
  end
  local looks = latest == '+inf' and 3 or 2
  for look = 1, looks do
    local newest, most = look == 1, look == 1 and NEWEST or OLDEST
    for from = 0, most - PAGE, PAGE do
      local page = newest and l.records('ZREVRANGEBYSCORE', latest, floor, 'LIMIT', from, PAGE)
        or l.records('ZRANGEBYSCORE', oldest, latest, 'LIMIT', from, PAGE)
      for i = 1, #page do
        local member = page[i]
        local fits = reserved(member)
        if look < 3 and fits then
          fits = false
        elseif newest then
          fits = string.sub(member, 1, #mark) == mark
        elseif look == 2 then
          fits = not leasedNow(l, member)
        end
        if fits and not taken[member] and found.given < wanted then
          local n = count(member)
          if found.given + n > wanted then
            found.part, found.rest, found.given = member, found.given + n - wanted, wanted
            break
          end
          found.given = found.given + n
          taken[member] = true
          found.whole[#found.whole + 1] = member
        end
      end
      found.unseen = found.given < wanted and #page == PAGE and from == most - PAGE
        and #found.whole >= (newest and most or 1) and l.records('ZCARD') - l.gone > #found.whole
      if #page < PAGE or found.given == wanted then
        break
      end
    end
    if found.unseen or found.given == wanted then
      break
    end
  end
  return found
end
