-- Whether the log is still the one that is known. Answers `start`, `same`, `other` or `lost`, the epoch, the newest
-- offset, the offset at which the epoch began, how many events are held, and of the newest event its id and when it was
-- appended, or ''.
-- ARGV[2] the epoch that is known, or ''; [3] the offset that was announced last, [4] the id of its event and [5] when
-- that was appended, or ''.
-- A log of the same epoch that does not reach to that offset, or has another event there, has lost what was newest, and
-- its offsets were given twice: another epoch begins, once for all who notice.

local epoch, last, start, held = open()
local verdict = 'same'
local offset = tonumber(ARGV[3])
if ARGV[2] == '' then
  verdict = 'start'
elseif ARGV[2] ~= epoch then
  verdict = 'other'
elseif last < offset then
  verdict = 'lost'
elseif ARGV[5] ~= '' and offset > last - held then
  local fields = fields_at(offset)
  if not fields or fields.i ~= ARGV[4] or fields.a ~= ARGV[5] then verdict = 'lost' end
end
if verdict == 'lost' then epoch, last, start = begin_epoch(last) end
local newest = verdict == 'start' and held > 0 and fields_at(last) or { i = '', a = '' }
return { verdict, epoch, last, start, held, newest.i, newest.a }
