/**
 * What happens to callers' limits in Redis, each step at once. A subject (a key, a group or an account) has three keys: its window (a hash: requests and tokens
 * of the last minute, a slot for each second and their sums), its running generations (a sorted set: member → when it is given up) and its budget (a
 * hash: what was spent this day and this month, in UTC). All times are Redis' own.
 */
import { redisClock } from "#service/script.ts";

const common = `${redisClock}
local windowSlots = 60
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
-- The window without what is older than a minute; a window from the future is void, for the clock was set back.
local function windowOf(key)
  local slot = tonumber(time[1])
  local held = redis.call('HMGET', key, 'from', 'r', 't', 'rl', 'tl', 'r' .. slot, 't' .. slot)
  local window = { from = tonumber(held[1]) or slot - windowSlots + 1, r = tonumber(held[2]) or 0, t = tonumber(held[3]) or 0,
    rl = tonumber(held[4]) or 0, tl = tonumber(held[5]) or 0,
    rNow = tonumber(held[6]) or 0, tNow = tonumber(held[7]) or 0, hasTokens = held[3] and true, slot = slot }
  if window.from > slot then
    redis.call('DEL', key)
    return { from = slot - windowSlots + 1, r = 0, t = 0, rl = 0, tl = 0, rNow = 0, tNow = 0, hasTokens = false, slot = slot }
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
local function spentOf(key)
  local held = redis.call('HMGET', key, 'day', 'dayMoney', 'month', 'monthMoney')
  local day = tonumber(held[1]) == today and tonumber(held[2]) or 0
  local month = tonumber(held[3]) == monthOf(today) and tonumber(held[4]) or 0
  return day, month, tonumber(held[1]) == today
end
`;

/**
 * Admits a generation, or refuses it at no cost.
 * KEYS: for each subject its window, running and budget. ARGV: the generation; its input tokens as estimated; all tokens to reserve; the money to reserve; for how many
 * milliseconds its slots live; then for each subject five limits, "" for none: requests and tokens a minute, generations at once, money a day, money a month.
 * Returns 1 or 0; of a refusal the number of the subject, that of the limit among its five, and when there is room (milliseconds from now, at most 60,000);
 * the time (epoch milliseconds); then for each subject the requests and the milliseconds until none counts any more, and the same of tokens.
 * Atomic: all limits of all subjects are checked before anything is taken. A limit admits what begins below it, so that a last answer may exceed it; but not an input that
 * does not fit, unless the window is empty.
 */
export const admitScript = `${common}
local subjects = #KEYS / 3
local input, tokens, money, lifeMs = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local function limitOf(subject, place) return tonumber(ARGV[5 + (subject - 1) * 5 + place]) end
local refusal
local function refuse(subject, place, retryMs)
  local isBudget = place >= 4
  if not refusal or (isBudget and refusal.place < 4) or (isBudget == (refusal.place >= 4) and retryMs > refusal.retryMs) then
    refusal = { subject = subject, place = place, retryMs = retryMs }
  end
end
-- Until so much of a window is over that what is needed fits.
local function waitOf(key, window, letter, total, excess)
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
local windows, spent = {}, {}
for subject = 1, subjects do
  local windowKey, runningKey, budgetKey = KEYS[subject * 3 - 2], KEYS[subject * 3 - 1], KEYS[subject * 3]
  local requestsMax, tokensMax, runningMax = limitOf(subject, 1), limitOf(subject, 2), limitOf(subject, 3)
  local dayMax, monthMax = limitOf(subject, 4), limitOf(subject, 5)
  if requestsMax or tokensMax then
    local window = windowOf(windowKey)
    windows[subject] = window
    if requestsMax and window.r + 1 > requestsMax then
      refuse(subject, 1, waitOf(windowKey, window, 'r', window.r, window.r + 1 - requestsMax))
    end
    local needed = math.max(1, math.min(input, tokensMax or 0))
    if tokensMax and tokens > 0 and window.t + needed > tokensMax then
      refuse(subject, 2, waitOf(windowKey, window, 't', window.t, window.t + needed - tokensMax))
    end
  end
  if runningMax then
    redis.call('ZREMRANGEBYSCORE', runningKey, '-inf', nowMs)
    if redis.call('ZCARD', runningKey) >= runningMax then refuse(subject, 3, 1000) end
  end
  if dayMax or monthMax then
    local day, month, isOfToday = spentOf(budgetKey)
    spent[subject] = { day = day, month = month, isOfToday = isOfToday }
    if money > 0 and dayMax and day >= dayMax then refuse(subject, 4, 0) end
    if money > 0 and monthMax and month >= monthMax then refuse(subject, 5, 1) end
  end
end
if not refusal then
  for subject = 1, subjects do
    local windowKey, runningKey, budgetKey = KEYS[subject * 3 - 2], KEYS[subject * 3 - 1], KEYS[subject * 3]
    local window = windows[subject]
    if window then
      local written = { 'from', window.from }
      if limitOf(subject, 1) then
        window.r, window.rl = window.r + 1, window.slot
        for _, part in ipairs({ 'r', window.r, 'rl', window.rl, 'r' .. window.slot, window.rNow + 1 }) do written[#written + 1] = part end
      end
      if limitOf(subject, 2) and tokens > 0 then
        window.t, window.tl = window.t + tokens, window.slot
        for _, part in ipairs({ 't', window.t, 'tl', window.tl, 't' .. window.slot, window.tNow + tokens }) do written[#written + 1] = part end
      end
      redis.call('HSET', windowKey, unpack(written))
      redis.call('PEXPIRE', windowKey, (windowSlots + 1) * 1000)
    end
    if limitOf(subject, 3) then
      redis.call('ZADD', runningKey, nowMs + lifeMs, ARGV[1])
      redis.call('PEXPIRE', runningKey, lifeMs)
    end
    if spent[subject] then
      redis.call('HSET', budgetKey, 'day', today, 'dayMoney', string.format('%.17g', spent[subject].day + money),
        'month', monthOf(today), 'monthMoney', string.format('%.17g', spent[subject].month + money))
      if not spent[subject].isOfToday then redis.call('PEXPIRE', budgetKey, 32 * 86400000) end
    end
  end
end
local answer = { refusal and 0 or 1, refusal and refusal.subject or 0, refusal and refusal.place or 0, refusal and refusal.retryMs or 0, nowMs }
for subject = 1, subjects do
  local window = windows[subject] or { r = 0, t = 0, rl = 0, tl = 0 }
  answer[#answer + 1] = window.r
  answer[#answer + 1] = math.max(0, (window.rl + windowSlots) * 1000 - nowMs)
  answer[#answer + 1] = window.t
  answer[#answer + 1] = math.max(0, (window.tl + windowSlots) * 1000 - nowMs)
end
return answer`;

/**
 * Ends a generation that was admitted: gives its slots back and corrects what was reserved.
 * KEYS: as at its admission. ARGV: the generation; when it was admitted (epoch milliseconds, Redis' time); how many tokens more it took than were reserved; how much more money.
 * Returns nothing. Atomic. What was reserved too much is given back only while it still counts; what was reserved too little counts from now, and as money while the
 * day and the month last. Not to be repeated.
 */
export const settleScript = `${common}
local admittedSlot, tokens, money = math.floor(ARGV[2] / 1000), tonumber(ARGV[3]), tonumber(ARGV[4])
local admittedDay = math.floor(admittedSlot / 86400)
for first = 1, #KEYS, 3 do
  local windowKey, runningKey, budgetKey = KEYS[first], KEYS[first + 1], KEYS[first + 2]
  if tokens ~= 0 and redis.call('HEXISTS', windowKey, 't') == 1 then
    local window = windowOf(windowKey)
    if window.hasTokens then
      local slot, change = window.slot, tokens
      if tokens < 0 then
        slot = admittedSlot
        change = -math.min(-tokens, tonumber(redis.call('HGET', windowKey, 't' .. slot)) or 0)
      end
      if change ~= 0 then
        redis.call('HINCRBY', windowKey, 't' .. slot, change)
        redis.call('HINCRBY', windowKey, 't', change)
        if change > 0 then redis.call('HSET', windowKey, 'tl', slot) end
        redis.call('PEXPIRE', windowKey, (windowSlots + 1) * 1000)
      end
    end
  end
  redis.call('ZREM', runningKey, ARGV[1])
  if money ~= 0 and redis.call('EXISTS', budgetKey) == 1 then
    local day, month = spentOf(budgetKey)
    if admittedDay == today then day = math.max(0, day + money) end
    if monthOf(admittedDay) == monthOf(today) then month = math.max(0, month + money) end
    redis.call('HSET', budgetKey, 'day', today, 'dayMoney', string.format('%.17g', day), 'month', monthOf(today), 'monthMoney', string.format('%.17g', month))
  end
end`;

/**
 * Prolongs the slots of generations that are not over.
 * KEYS: running sets, each once. ARGV: for how many milliseconds a slot lives; then pairs of a set's number among KEYS and a generation.
 * Returns nothing. Atomic. Repeating it does no harm.
 */
export const renewScript = `${redisClock}
local lifeMs = tonumber(ARGV[1])
local untilMs = nowMs + lifeMs
for i = 2, #ARGV, 2 do redis.call('ZADD', KEYS[tonumber(ARGV[i])], untilMs, ARGV[i + 1]) end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], lifeMs) end`;
