-- changed.lua: stands in the scripts after which somebody who waits may be served earlier, and tells
-- them. Who may not publish, changes the limiter all the same.
--
-- The last of ARGV is the channel.

redis.pcall('PUBLISH', ARGV[#ARGV], 'changed')
