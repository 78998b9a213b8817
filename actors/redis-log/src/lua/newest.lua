-- The newest event of each key of a channel. Answers the newest offset of the log, 1 when there are more keys than are
-- answered, and the offsets.
-- KEYS[3] the channel's keys, each with its room, by the offset of their newest event.
-- ARGV[2] microseconds before which events do not count, or ''; [3] how many keys are answered, [4] how many are looked
-- at; [5] `all`, or `only` and the names of rooms.

local epoch, last, _, held = open()
local first = last + 1 - held
if ARGV[2] ~= '' then first = first_appended_since(first, last, tonumber(ARGV[2])) end
local max_keys, max_scanned = tonumber(ARGV[3]), tonumber(ARGV[4])
local rooms = nil
if ARGV[5] == 'only' then
  rooms = {}
  for index = 6, #ARGV do rooms[ARGV[index]] = true end
end

local STEP = 1000
local known, answers, found, scanned = {}, { last, 0 }, 0, 0
while true do
  local step = redis.call('ZREVRANGEBYSCORE', KEYS[3], '+inf', text(first), 'WITHSCORES', 'LIMIT', scanned, STEP)
  for index = 1, #step, 2 do
    -- `-` and the key, or the length of the room, a colon, the room and the key.
    local member, room = step[index], nil
    local name = string.sub(member, 2)
    if string.sub(member, 1, 1) ~= '-' then
      local colon = string.find(member, ':', 1, true)
      local name_begins = colon + 1 + tonumber(string.sub(member, 1, colon - 1))
      room, name = string.sub(member, colon + 1, name_begins - 1), string.sub(member, name_begins)
    end
    if not known[name] and (not rooms or room and rooms[room]) then
      if found == max_keys then
        answers[2] = 1
        return answers
      end
      known[name] = true
      found = found + 1
      answers[#answers + 1] = tonumber(step[index + 1])
    end
  end
  scanned = scanned + #step / 2
  if #step < 2 * STEP then return answers end
  if scanned >= max_scanned then
    answers[2] = 1
    return answers
  end
end
