-- Answers the newest held offset that is remembered for an id, in whatever channel; 0 when there is none.
-- KEYS[3] where the id is remembered.

local _, last, _, held = open()
local newest = 0
for _, offset in ipairs(redis.call('HVALS', KEYS[3])) do newest = math.max(newest, tonumber(offset)) end
if newest < last + 1 - held or newest > last then return 0 end
return newest
