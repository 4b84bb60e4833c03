-- acquire.lua: judges requests in the order in which they came, each by what those before it left.
-- drop.lua and record.lua write what it grants.
--
-- KEYS, ARGV, errors: common.lua
-- ARGV[2]    the permits of all requests together
-- ARGV[3]    records that hold as many (mine.lua or seen.lua)
-- ARGV[first..]  where there is more than one: runs of equal requests, of each its permits and how
--            many they are; negative for those that stand in line: once one of them is refused, so
--            are all behind it
-- Reply:     where nobody asks for numbers, 0 when all are granted, and for a lone request that is
--            refused the us until its permits are there (brief); otherwise numbers.lua
--
-- taken      the permits that are granted now
-- answers    for each run: how many are granted, from the first on, and the us until the permits of
--            the next one are there, 0 if it was refused for its place in line, -1 if they never can
--            be, below that minus the us until it may look again (due.lua). nil when all are granted
-- again      nothing is granted yet, for not all can be, and some expired records still count: ask
--            again, and they will not. So a call that grants anything has judged everything. Or so many
--            have expired that they go all at once, and a new one must not be among them (last.lua)
-- idle       there is nothing to write
--
-- When a call is sent again and was granted permits before (held), its requests are judged by those
-- and get the answers that they got then: what was left over was too little for each that was refused,
-- and still is without it. A lone request was granted, then, however much of its record somebody has
-- released since.
--
-- Where what is taken is back at once (limiter.lua), nothing is taken from the value.

local all, lone = tonumber(ARGV[2]), not ARGV[first]
local taken, answers, idle = 0, nil, false
local again = not held and (gone > MANY or more and all > value and not (lone and all > rate))
if again then
  answers = {}
elseif not held and all <= value and not free then
  taken = all
elseif not (held and lone) then
  local refused, used, sums = false, 0, {}
  answers, idle = {}, true
  for i = first, math.max(first, #ARGV), 2 do
    local n, many = tonumber(ARGV[i]) or all, tonumber(ARGV[i + 1]) or 1
    local inline, granted, wait = many < 0, 0, -1
    if n <= rate then
      idle, wait, many = false, 0, math.abs(many)
      for _ = 1, 4 do -- what fits, a value put right by due.lua, what fits then, the time of the next one
        if granted == many or wait ~= 0 or (inline and refused) then
          break
        end
        local fit = free and many or math.min(many - granted, math.floor(((held or value) - used) / n))
        if fit > 0 then
          granted = granted + fit
          used = free and 0 or used + fit * n
          taken = held and 0 or used
        elseif held and n <= value then
          wait = 1
        else
          -- include due.lua
        end
      end
      refused = refused or (inline and granted < many)
    end
    answers[#answers + 1] = granted
    answers[#answers + 1] = wait
  end
end
local brief = lone and answers and answers[2] and answers[2] > 0 and answers[2] or nil
