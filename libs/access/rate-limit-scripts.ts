/**
 * What happens to callers' limits in Redis, each step at once. All times are Redis' own. A subject (a key, a group or an account) has four keys:
 *
 *     window    hash: requests and tokens of the last minute, a slot for each second and their sums
 *     running   sorted set: a generation's lease → when it lapses
 *     reserved  hash: generation → what its lease reserves, "<second of its admission> <tokens> <money>"; `money` → the sum of all
 *     budget    hash: what was spent this day and this month, in UTC
 *
 * The budget holds only what was used; what is reserved counts beside it for as long as its lease lives. Tokens count in the window from their admission on,
 * for a minute, also when their generation runs for longer. A lease that lapses takes back what it reserved, in the window too.
 */
import { redisClock } from "#service/script.ts";

const common = `${redisClock}
local windowSlots = 60
local windowMs = (windowSlots + 1) * 1000
local lapsedMax = 1000
local today = math.floor(time[1] / 86400)
-- The number of a day's month: https://howardhinnant.github.io/date_algorithms.html#civil_from_days
local function monthOf(day)
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local mp = math.floor((5 * (doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))) + 2) / 153)
  local year = yoe + era * 400
  if mp < 10 then return year * 12 + mp + 2 end
  return (year + 1) * 12 + mp - 10
end
local function textOf(money) return string.format('%.17g', money) end
-- The window without what is older than a minute; a window from the future is void, for the clock was set back.
local function windowOf(key)
  local slot = tonumber(time[1])
  local held = redis.call('HMGET', key, 'from', 'r', 't', 'rl', 'tl', 'r' .. slot, 't' .. slot)
  local window = { from = tonumber(held[1]) or slot - windowSlots + 1, r = tonumber(held[2]) or 0, t = tonumber(held[3]) or 0,
    rl = tonumber(held[4]) or 0, tl = tonumber(held[5]) or 0, rNow = tonumber(held[6]) or 0, tNow = tonumber(held[7]) or 0, slot = slot }
  if window.from > slot then
    redis.call('DEL', key)
    return { from = slot - windowSlots + 1, r = 0, t = 0, rl = 0, tl = 0, rNow = 0, tNow = 0, slot = slot }
  end
  local oldest = slot - windowSlots + 1
  if window.from < oldest then
    local fields = {}
    for old = window.from, math.min(oldest, window.from + windowSlots) - 1 do
      fields[#fields + 1] = 'r' .. old
      fields[#fields + 1] = 't' .. old
    end
    local values = redis.call('HMGET', key, unpack(fields))
    for i = 1, #values, 2 do
      window.r = window.r - (tonumber(values[i]) or 0)
      window.t = window.t - (tonumber(values[i + 1]) or 0)
    end
    window.from = oldest
    if held[1] then
      redis.call('HDEL', key, unpack(fields))
      redis.call('HSET', key, 'from', oldest)
      if held[2] then redis.call('HSET', key, 'r', window.r) end
      if held[3] then redis.call('HSET', key, 't', window.t) end
    end
  end
  return window
end
-- Takes back what a second of the window counts, as far as it still counts.
local function giveBack(key, letter, slot, count)
  local counted = math.min(count, tonumber(redis.call('HGET', key, letter .. slot)) or 0)
  if counted <= 0 then return end
  redis.call('HINCRBY', key, letter .. slot, -counted)
  redis.call('HINCRBY', key, letter, -counted)
end
local function spentOf(key)
  local held = redis.call('HMGET', key, 'day', 'dayMoney', 'month', 'monthMoney')
  local day = tonumber(held[1]) == today and tonumber(held[2]) or 0
  local month = tonumber(held[3]) == monthOf(today) and tonumber(held[4]) or 0
  return day, month, tonumber(held[1]) == today
end
local function parsed(lease)
  local slot, tokens, money = string.match(lease, '^(%S+) (%S+) (%S+)$')
  return slot, tonumber(tokens), tonumber(money)
end
-- The last of all leaves no sum behind, so that what rounding adds up to is gone with it.
local function endLeases(runningKey, reservedKey, generations, money)
  redis.call('ZREM', runningKey, unpack(generations))
  redis.call('HDEL', reservedKey, unpack(generations))
  if redis.call('ZCARD', runningKey) == 0 then redis.call('DEL', reservedKey)
  elseif money > 0 then
    redis.call('HSET', reservedKey, 'money', textOf(math.max(0, (tonumber(redis.call('HGET', reservedKey, 'money')) or 0) - money)))
  end
end
local function endLapsed(windowKey, runningKey, reservedKey)
  local lapsed = redis.call('ZRANGEBYSCORE', runningKey, '-inf', nowMs, 'LIMIT', 0, lapsedMax)
  if #lapsed == 0 then return end
  local sum = 0
  for _, lease in ipairs(redis.call('HMGET', reservedKey, unpack(lapsed))) do
    if lease then
      local slot, tokens, money = parsed(lease)
      if tokens > 0 then giveBack(windowKey, 't', slot, tokens) end
      sum = sum + money
    end
  end
  endLeases(runningKey, reservedKey, lapsed, sum)
end
`;

/**
 * Admits a generation, or refuses it at no cost.
 * KEYS: for each subject its window, running, reserved and budget. ARGV: the generation; its input tokens as estimated; all tokens to reserve; the money to reserve; for how
 * many milliseconds its leases live, 0 for none where nothing will be settled; 1, or 0 to decide only and take nothing; then for each subject five limits, "" for none: requests and tokens a minute,
 * generations at once, money a day, money a month.
 * Returns 1 or 0; of a refusal the number of the subject, that of the limit among its five, 1 when that is a budget which is spent and not only reserved, and when
 * there is room (milliseconds from now, at most 60,000; of a spent budget it says nothing); the time (epoch milliseconds); then for each subject the
 * requests and the milliseconds until none counts any more, and the same of tokens.
 * Atomic: all limits of all subjects are checked before anything is taken. A limit admits what begins below it, so that a last answer may exceed it; but not an input that
 * does not fit, unless the window is empty. Leases that lapsed are ended first, a thousand of each subject.
 */
export const admitScript = `${common}
local subjects = #KEYS / 4
local input, tokens, money, lifeMs, takes = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
local function keysOf(subject) return KEYS[subject * 4 - 3], KEYS[subject * 4 - 2], KEYS[subject * 4 - 1], KEYS[subject * 4] end
local function limitOf(subject, place) return tonumber(ARGV[6 + (subject - 1) * 5 + place]) end
local refusal
-- What can't be waited for goes first, then what takes longest.
local function refuse(subject, place, retryMs, isSpent)
  if not refusal or (isSpent and not refusal.isSpent) or (isSpent == refusal.isSpent and retryMs > refusal.retryMs) then
    refusal = { subject = subject, place = place, retryMs = retryMs, isSpent = isSpent }
  end
end
-- Until so much of a window is over that what is needed fits.
local function waitOf(key, window, letter, excess)
  local fields = {}
  for slot = window.from, window.slot do fields[#fields + 1] = letter .. slot end
  local values = redis.call('HMGET', key, unpack(fields))
  local freed = 0
  for i = 1, #values do
    freed = freed + (tonumber(values[i]) or 0)
    if freed >= excess then return (window.from + i - 1 + windowSlots) * 1000 - nowMs end
  end
  return windowSlots * 1000
end
local windows, running, reserved = {}, {}, {}
for subject = 1, subjects do
  local windowKey, runningKey, reservedKey, budgetKey = keysOf(subject)
  local requestsMax, tokensMax, runningMax = limitOf(subject, 1), limitOf(subject, 2), limitOf(subject, 3)
  local dayMax, monthMax = limitOf(subject, 4), limitOf(subject, 5)
  if lifeMs > 0 then
    endLapsed(windowKey, runningKey, reservedKey)
    running[subject] = redis.call('ZCARD', runningKey)
    if runningMax and running[subject] >= runningMax then refuse(subject, 3, 1000, false) end
  end
  if requestsMax or tokensMax then
    local window = windowOf(windowKey)
    windows[subject] = window
    if requestsMax and window.r + 1 > requestsMax then refuse(subject, 1, waitOf(windowKey, window, 'r', window.r + 1 - requestsMax), false) end
    local needed = math.max(1, math.min(input, tokensMax or 0))
    if tokensMax and tokens > 0 and window.t + needed > tokensMax then
      refuse(subject, 2, waitOf(windowKey, window, 't', window.t + needed - tokensMax), false)
    end
  end
  if money > 0 and (dayMax or monthMax) then
    local day, month = spentOf(budgetKey)
    reserved[subject] = tonumber(redis.call('HGET', reservedKey, 'money')) or 0
    if dayMax and day + reserved[subject] >= dayMax then refuse(subject, 4, day >= dayMax and 0 or 1000, day >= dayMax) end
    if monthMax and month + reserved[subject] >= monthMax then refuse(subject, 5, month >= monthMax and 1 or 1000, month >= monthMax) end
  end
end
if takes and not refusal then
  for subject = 1, subjects do
    local windowKey, runningKey, reservedKey = keysOf(subject)
    local window = windows[subject]
    local countsTokens = limitOf(subject, 2) and tokens > 0
    if window then
      if window.rNow == 0 and window.tNow == 0 then window.isNew = true end
      local written = { 'from', window.from }
      if limitOf(subject, 1) then
        window.r, window.rl = window.r + 1, window.slot
        for _, part in ipairs({ 'r', window.r, 'rl', window.rl, 'r' .. window.slot, window.rNow + 1 }) do written[#written + 1] = part end
      end
      if countsTokens then
        window.t, window.tl = window.t + tokens, window.slot
        for _, part in ipairs({ 't', window.t, 'tl', window.tl, 't' .. window.slot, window.tNow + tokens }) do written[#written + 1] = part end
      end
      redis.call('HSET', windowKey, unpack(written))
      if window.isNew then redis.call('PEXPIRE', windowKey, windowMs) end
    end
    if lifeMs > 0 then
      redis.call('ZADD', runningKey, nowMs + lifeMs, ARGV[1])
      local lease = time[1] .. ' ' .. (countsTokens and ARGV[3] or 0) .. ' ' .. (reserved[subject] and ARGV[4] or 0)
      if reserved[subject] then redis.call('HSET', reservedKey, ARGV[1], lease, 'money', textOf(reserved[subject] + money))
      else redis.call('HSET', reservedKey, ARGV[1], lease) end
      if running[subject] == 0 then
        redis.call('PEXPIRE', runningKey, lifeMs + windowMs)
        redis.call('PEXPIRE', reservedKey, lifeMs + windowMs)
      end
    end
  end
end
local answer = { refusal and 0 or 1, refusal and refusal.subject or 0, refusal and refusal.place or 0, refusal and refusal.isSpent and 1 or 0,
  refusal and refusal.retryMs or 0, nowMs }
for subject = 1, subjects do
  local window = windows[subject] or { r = 0, t = 0, rl = 0, tl = 0 }
  answer[#answer + 1] = window.r
  answer[#answer + 1] = math.max(0, (window.rl + windowSlots) * 1000 - nowMs)
  answer[#answer + 1] = window.t
  answer[#answer + 1] = math.max(0, (window.tl + windowSlots) * 1000 - nowMs)
end
return answer`;

/**
 * Ends a generation: its leases are over, and what it used is counted.
 * KEYS: the settled generations (sorted set), then as at its admission. ARGV: the generation; the tokens and the money that it used; 1 when it never began, so that its
 * request does not count either; for how many milliseconds it is remembered as settled; for each subject 1 where its tokens count, or 0; for each subject 1
 * where its money counts, or 0; then other generations whose settling their ingress knows of, which are forgotten.
 * Returns 1, or 0 when it was settled before. Atomic. Repeating it does no harm while it is remembered, whether its leases are there, lapsed, or were lost with
 * all that was counted. What was reserved too much is given back only while it still counts; what was reserved too little counts from now.
 */
export const settleScript = `${common}
local tokens, money, neverBegan, rememberMs = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5])
local subjects = (#KEYS - 1) / 4
local firstKnown = 6 + subjects * 2
if #ARGV >= firstKnown then redis.call('ZREM', KEYS[1], unpack(ARGV, firstKnown)) end
if redis.call('ZADD', KEYS[1], 'NX', nowMs, ARGV[1]) == 0 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', nowMs - rememberMs)
redis.call('PEXPIRE', KEYS[1], rememberMs)
for subject = 1, subjects do
  local first = subject * 4 - 2
  local windowKey, runningKey, reservedKey, budgetKey = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  local countsTokens, countsMoney = ARGV[5 + subject] == '1', ARGV[5 + subjects + subject] == '1'
  local tokensReserved = 0
  local lease = redis.call('HGET', reservedKey, ARGV[1])
  if lease then
    local slot, leaseTokens, leaseMoney = parsed(lease)
    tokensReserved = leaseTokens
    if tokensReserved > tokens then giveBack(windowKey, 't', slot, tokensReserved - tokens) end
    if neverBegan then giveBack(windowKey, 'r', slot, 1) end
    endLeases(runningKey, reservedKey, { ARGV[1] }, leaseMoney)
  end
  if countsTokens and tokens > tokensReserved then
    local window = windowOf(windowKey)
    local more = tokens - tokensReserved
    redis.call('HSET', windowKey, 'from', window.from, 't', window.t + more, 'tl', window.slot, 't' .. window.slot, window.tNow + more)
    redis.call('PEXPIRE', windowKey, windowMs)
  end
  if countsMoney and money > 0 then
    local day, month, isOfToday = spentOf(budgetKey)
    redis.call('HSET', budgetKey, 'day', today, 'dayMoney', textOf(day + money), 'month', monthOf(today), 'monthMoney', textOf(month + money))
    if not isOfToday then redis.call('PEXPIRE', budgetKey, 32 * 86400000) end
  end
end
return 1`;

/**
 * Prolongs the leases of generations that are not over.
 * KEYS: for each subject its running and its reserved, each subject once. ARGV: for how many milliseconds a lease lives; then, for each lease, its subject's number, its
 * generation and the money that it reserves there.
 * Returns nothing. Atomic. Repeating it does no harm. A lease that lapsed or was lost is there again, but for its tokens.
 */
export const renewScript = `${common}
local lifeMs = tonumber(ARGV[1])
for i = 2, #ARGV, 3 do
  local subject, generation, money = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local runningKey, reservedKey = KEYS[subject * 2 - 1], KEYS[subject * 2]
  if redis.call('ZADD', runningKey, nowMs + lifeMs, generation) == 1 then
    local sum = (tonumber(redis.call('HGET', reservedKey, 'money')) or 0) + tonumber(money)
    redis.call('HSET', reservedKey, generation, time[1] .. ' 0 ' .. money, 'money', textOf(sum))
  end
end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], lifeMs + windowMs) end`;
