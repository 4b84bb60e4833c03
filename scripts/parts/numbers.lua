-- numbers.lua: makes the long reply: {1 to send the call again, otherwise 0; rate; permits left, may be
-- negative; ms until all permits are back, without those granted now; the same with them; the interval in
-- ms; the permits by which the value was wrong; answers}. The two times are 0 if no caller asks for them.
--
-- in:       asked, again, answers, taken, stamp, rate, value, interval, drift, now, timed, head, astray,
--           reply
-- out:      none
-- changes:  reply, astray
-- writes:   no
-- ends the script: no

do
  local reset = 0
  if asked and head[1] then
    local newest = redis.call('ZRANGE', KEYS[3], '-1', '-1', 'WITHSCORES')
    local at = math.ceil(tonumber(newest[2]) or math.huge)
    if at > now then
      local member = newest[1]
      -- include parts/ahead.lua
    end
    reset = math.max(1, at + interval - now)
  end
  local later = asked and taken > 0 and math.max(reset, stamp + interval - now) or reset
  reply = { again and 1 or 0, rate, value - taken, reset, later, interval, drift }
  local FIXED = #reply
  for i = 1, answers and #answers or 0 do
    reply[FIXED + i] = answers[i]
  end
end
