-- peek.lua: the numbers of a limiter. Writes nothing.
--
-- KEYS, ARGV, errors: common.lua; it always asks for numbers
-- ARGV[2]  the permits somebody may want
-- Reply:   {ms until they are there, 0 if they are or never can be, rate, permits to take (may be
--          negative), ms until all are back}

return reply
