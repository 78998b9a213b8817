-- Removes the oldest events that are too old, at most so many at once. Answers how many.
-- ARGV[2] how old an event may be, in microseconds; [3] how many are removed at most.

local epoch, last, _, held = open()
local first = last + 1 - held
local time = redis.call('TIME')
local oldest = tonumber(time[1]) * 1000000 + tonumber(time[2]) - tonumber(ARGV[2])
local kept = math.min(first_appended_since(first, last, oldest), first + tonumber(ARGV[3]))
if kept <= first then return 0 end
return redis.call('XTRIM', KEYS[2], 'MINID', '=', text(kept) .. '-0')
