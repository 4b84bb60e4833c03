-- find.lua: finds the records to take permits back from. It changes nothing.
--
-- A release takes the newest records of this Client, and for permits that they do not hold the oldest ones
-- of any Client. The newest records of other Clients are left alone. Their permits may have been used, and
-- count for most of an interval; taken out of the records, they would be granted again. The oldest records
-- cost least: their permits would have come back next. A record of 8 bytes has no room for a Client's mark,
-- so none counts as own.
--
-- A withdrawal takes this Client's newest records up to the time of its grant, and then the oldest ones.
-- Where records have no mark, those of exactly that time count as own ones. Later records are left alone,
-- because the records of the grant may have been cleared. A release of another Client may also have taken
-- them, and left as many permits in later records. Then what the withdrawal does not find comes back with
-- these, up to an interval later. But heal.lua may have joined the record with others of the same thousandth
-- of an interval, dated by the latest. So if no record has its time, the end of that thousandth counts as its
-- time.
--
-- A reservation is settled by the names of its records. So a release takes them only where all other records
-- hold too few permits, as for permits that were reserved and used, and a withdrawal takes none but its own,
-- by their names. Permits of a lease that has not ended are not out: the Client that took them hands out what
-- is left, so that it would be granted twice.
--
-- A call takes about TAKEN records, and the next call takes more.
--
-- Before it: withdraws, where (the time of the grant), live (how many records count), and left, the permits
-- to be found. After it: whole, the records that hold them; left, the permits that it has not found, below
-- 0 if the last record holds more than are wanted; again, 1 if another call may find more.

-- include parts/reserved.lua
local floor, taken, slice = string.format('(%d', now - interval), {}, math.max(1, math.floor(span / 1000))
local exact = withdraws and redis.call('ZCOUNT', KEYS[3], where, where) > 0
local ends = withdraws and (exact and where or string.format('(%d', where - where % slice + slice))
for i = NAMES, #ARGV do
  if tonumber(redis.call('ZSCORE', KEYS[3], ARGV[i]) or '') == tonumber(where) then
    left, whole[#whole + 1] = left - count(ARGV[i]), ARGV[i]
  end
end
for look = mark == '' and not exact and 2 or 1, ARGV[NAMES] and 0 or 2 do
  local newest, most, spare = look == 1, LIVE / 2, {}
  local begins, low = newest and mark or '', newest and mark == '' and where or floor
  local high = withdraws and (newest and ends or where) or '+inf'
  for from = 0, most - PAGE, PAGE do
    local page = newest and redis.call('ZREVRANGEBYSCORE', KEYS[3], high, low, 'LIMIT', from, PAGE)
      or redis.call('ZRANGEBYSCORE', KEYS[3], low, high, 'LIMIT', from, PAGE)
    for _, record in ipairs(page) do
      if left > 0 and string.sub(record, 1, #begins) == begins and not taken[record]
        and not (leased(record) and (tonumber(redis.call('ZSCORE', KEYS[3], record)) or math.huge) > now) then
        if not reserved(record) then
          left, taken[record], whole[#whole + 1] = left - count(record), true, record
        elseif not newest and not withdraws then
          spare[#spare + 1] = record
        end
      end
    end
    if left <= 0 or #page < PAGE or #whole >= TAKEN then
      break
    end
  end
  for i = 1, (#whole == 0 or live <= most) and #spare or 0 do
    if left > 0 and #whole < TAKEN then
      left, whole[#whole + 1] = left - count(spare[i]), spare[i]
    end
  end
  again = left > 0 and #whole > 0 and (live > most or #whole >= TAKEN) and 1 or 0
  if left <= 0 or again == 1 then
    break
  end
end
