-- Appends events, or recognises them. Answers the epoch and, for each event, its offset or 0 for one that is known.
-- KEYS, for each event: where its id is remembered, where its commit is, and the newest of each key of its channel.
-- ARGV[2] how long an event is recognised, [3] how long a channel's keys are kept after its last event, both in
-- milliseconds, [4] how many events are held. Then for each event: its channel, its key with its room or '', what its
-- commit says or '', how far times of one commit may lie apart in microseconds, how many arguments follow, and those:
-- the names and values of its entry.

local window, keep, max_events = ARGV[2], ARGV[3], ARGV[4]
-- So many reports of one snapshot are compared with a further one.
local MAX_REPORTS = 16

local function split(facts)
  local parts = {}
  for part in string.gmatch(facts, '([^|]*)|') do parts[#parts + 1] = part end
  -- The operation may hold any character, so it stands last.
  parts[#parts + 1] = string.match(facts, '^[^|]*|[^|]*|[^|]*|[^|]*|[^|]*|[^|]*|(.*)$')
  return parts
end

local function agree(one, other) return one == '' or other == '' or one == other end

-- Whether the commit was reported already: times close to each other, the same `schemaChanged`, and operation and counts
-- equal where both have them.
local function is_known_commit(key, facts, apart)
  local ours = split(facts)
  for _, report in ipairs(redis.call('LRANGE', key, 0, -1)) do
    local theirs = split(report)
    local same = math.abs(tonumber(ours[1]) - tonumber(theirs[1])) <= apart and ours[2] == theirs[2]
    for part = 3, 6 do same = same and agree(ours[part], theirs[part]) end
    if same and agree(ours[#ours], theirs[#theirs]) then return true end
  end
  return false
end

local epoch, last = open()
local time = redis.call('TIME')
local appended_at = text(tonumber(time[1]) * 1000000 + tonumber(time[2]))
local answers, touched = { epoch }, {}
local key, argument = 3, 5
while KEYS[key] do
  local seen, commit, keyed = KEYS[key], KEYS[key + 1], KEYS[key + 2]
  local channel, member, facts = ARGV[argument], ARGV[argument + 1], ARGV[argument + 2]
  local apart, count = tonumber(ARGV[argument + 3]), tonumber(ARGV[argument + 4])
  if redis.call('HEXISTS', seen, channel) == 1 or facts ~= '' and is_known_commit(commit, facts, apart) then
    answers[#answers + 1] = 0
  else
    local offset = text(last + 1)
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', max_events, offset .. '-0', 'v', '1', 'e', epoch, 'a', appended_at,
      unpack(ARGV, argument + 5, argument + 4 + count))
    redis.call('HSET', KEYS[1], 'last', offset)
    last = last + 1
    redis.call('HSET', seen, channel, offset)
    redis.call('PEXPIRE', seen, window)
    if facts ~= '' then
      redis.call('RPUSH', commit, facts)
      redis.call('LTRIM', commit, -MAX_REPORTS, -1)
      redis.call('PEXPIRE', commit, window)
    end
    if member ~= '' then
      redis.call('ZADD', keyed, offset, member)
      touched[keyed] = true
    end
    answers[#answers + 1] = last
  end
  key, argument = key + 3, argument + 5 + count
end
local first = last + 1 - redis.call('XLEN', KEYS[2])
for keyed in pairs(touched) do
  redis.call('ZREMRANGEBYSCORE', keyed, '-inf', '(' .. text(first))
  redis.call('PEXPIRE', keyed, keep)
end
return answers
