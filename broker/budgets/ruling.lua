-- One request to a store of shared counts, as one step of the server: `ruling.py` in Lua.
-- The words and the order of what is asked are those of that file; a test holds both together.
--
-- KEYS: the holder's place; then the trees; the counts of the line; what is revoked of the line.
-- ARGV: the request; holder; number; known (or at_least); cost; how many trees; how many links;
--       then the trees, the links, and the limits of the links ("-" for none).
-- Returns kind, base, link, why, and the counts before the call.

local request, holder = ARGV[1], ARGV[2]
local number, known, cost = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local trees, links = tonumber(ARGV[6]), tonumber(ARGV[7])
local RUN = 4294967296
local PREFIX = '{broker}:'

local function text(n)
  return string.format('%.0f', n)
end

local function answer(kind, link, why, before, base)
  return {kind, text(base or 0), link or '', why or '', unpack(before or {})}
end

local function lost()
  for i = 1, trees do
    local state = redis.call('HGET', KEYS[1 + i], 'lost')
    if not state then
      return answer('lost', ARGV[7 + i], 'nothing is known of its counts')
    elseif state ~= '' then
      return answer('lost', ARGV[7 + i], state)
    end
  end
end

local function forgotten()
  local why = 'calls of `' .. holder .. '` that were counted are not there any more'
  for i = 1, trees do
    redis.call('HSET', KEYS[1 + i], 'lost', why)
  end
  return answer('lost', ARGV[8], why)
end

-- A place is `number held cost link,link before,before`.
local function place()
  local found = redis.call('GET', KEYS[1])
  if not found then
    return nil
  end
  local n, held, c, line, before = string.match(found, '^(%d+) ([01]) (%d+) (%S*) (%S*)$')
  return {number = tonumber(n), held = held == '1', cost = tonumber(c), line = line, before = before}
end

local function put(n, held, c, line, before)
  redis.call('SET', KEYS[1], text(n) .. ' ' .. held .. ' ' .. text(c) .. ' ' .. line .. ' ' .. before)
end

local function give_back(at)
  for link in string.gmatch(at.line, '[^,]+') do
    redis.call('DECRBY', PREFIX .. 'count:' .. link, text(at.cost))
  end
end

local gone = lost()
if gone then
  return gone
end
local at = place()

if request == 'join' then
  if (at and at.number or 0) < known then
    return forgotten()
  end
  local base = at and (math.floor(at.number / RUN) + 1) * RUN or RUN
  if at and at.held and at.number > known then
    give_back(at)
  end
  put(base, 0, 0, '', '')
  return answer('granted', nil, nil, nil, base)
end

if request == 'refund' then
  if not at or at.number > number then
    return answer('stale', nil, 'a later request of this holder was here first')
  end
  if at.number == number and at.held then
    give_back(at)
  end
  put(number, 0, 0, '', '')
  return answer('granted')
end

-- request == 'reserve'
if not at or at.number < known then
  return forgotten()
elseif at.number > number then
  return answer('stale', nil, 'a later request of this holder was here first')
end
local line = table.concat(ARGV, ',', 8 + trees, 7 + trees + links)
if at.number == number then
  if not at.held or at.line ~= line then
    return answer('stale', nil, 'this request was taken back')
  end
  local before = {}
  for count in string.gmatch(at.before, '[^,]+') do
    before[#before + 1] = count
  end
  return answer('granted', nil, nil, before)
end
if at.held and at.number > known then
  give_back(at)
  put(at.number, 0, 0, '', '')
end
for i = 1, links do
  local why = redis.call('HGET', KEYS[1 + trees + links + i], 'reason')
  if why then
    return answer('revoked', ARGV[7 + trees + i], why)
  end
end
local before, full = {}, false
for i = 1, links do
  local count = tonumber(redis.call('GET', KEYS[1 + trees + i]) or '0')
  local limit = ARGV[7 + trees + links + i]
  before[i] = text(count)
  full = full or (limit ~= '-' and count + cost > tonumber(limit))
end
if full then
  return answer('full', nil, nil, before)
end
for i = 1, links do
  redis.call('INCRBY', KEYS[1 + trees + i], text(cost))
end
put(number, 1, cost, line, table.concat(before, ','))
return answer('granted', nil, nil, before)
