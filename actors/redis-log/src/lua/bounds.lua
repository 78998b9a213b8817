-- Answers the epoch, the newest offset and how many events are held.

local epoch, last, _, held = open()
return { epoch, last, held }
