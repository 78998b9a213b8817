-- Begins every script.
-- KEYS[1] the head: a hash of `epoch`, `last` (the newest offset) and `start` (the newest offset when the epoch began).
-- KEYS[2] the log: a stream; the event at offset n is the entry n-0, without holes.
-- ARGV[1] an epoch that was just drawn, for the case that one is needed.
-- Lua counts in doubles, which are exact to 2^53: more offsets, and more microseconds, than there will be.

local function text(number) return string.format('%.0f', number) end

local function begin_epoch(last)
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'last', text(last), 'start', text(last))
  return ARGV[1], last, last
end

-- The newest offset of a stream that there is.
local function newest_of_stream()
  local facts = redis.call('XINFO', 'STREAM', KEYS[2])
  for index = 1, #facts, 2 do
    if facts[index] == 'last-generated-id' then return tonumber(string.match(facts[index + 1], '^%d+')) end
  end
end

-- The epoch, the newest offset, the offset at which the epoch began, and how many events are held. A head or a stream
-- that is gone was lost: what is left goes on in another epoch.
local function open()
  local head = redis.call('HMGET', KEYS[1], 'epoch', 'last', 'start')
  local held = redis.call('XLEN', KEYS[2])
  local epoch, last, start = head[1], tonumber(head[2] or ''), tonumber(head[3] or '')
  if not (epoch and last and start) then
    last = 0
    if redis.call('EXISTS', KEYS[2]) == 1 then last = newest_of_stream() end
    epoch, last, start = begin_epoch(last)
  elseif held == 0 and last > start and redis.call('EXISTS', KEYS[2]) == 0 then
    epoch, last, start = begin_epoch(last)
  end
  return epoch, last, start, held
end

-- One field of the entry at this offset; nothing when there is no entry.
local function fields_at(offset)
  local id = text(offset) .. '-0'
  local entry = redis.call('XRANGE', KEYS[2], id, id)[1]
  if not entry then return nil end
  local fields = {}
  for index = 1, #entry[2], 2 do fields[entry[2][index]] = entry[2][index + 1] end
  return fields
end

-- The oldest of the offsets from first to last that was appended at this time or later, in microseconds; last + 1 when
-- none was. Entries were appended in the order of time, as the clock of one server tells it.
local function first_appended_since(first, last, micros)
  local low, high = first, last + 1
  while low < high do
    local middle = math.floor((low + high) / 2)
    local fields = fields_at(middle)
    if fields and tonumber(fields.a) >= micros then high = middle else low = middle + 1 end
  end
  return low
end
