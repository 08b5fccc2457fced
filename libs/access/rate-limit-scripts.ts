/**
 * The Lua scripts that count callers' limits in Redis. Each script is atomic and uses Redis' clock.
 * A subject (a key, a group or an account) has four keys:
 *
 *     window    hash: requests (`r`) and tokens (`t`) of the last minute; one slot for each second, and the sums
 *     running   sorted set: the lease of each running generation → when it expires
 *     reserved  hash: generation → what its lease reserves, "<second of admission> <tokens> <nano-units>"; `nano` → the sum of all
 *     budget    hash: the nano-units spent in each period: `day` → the day's number, `dayNano` → the sum; likewise `week`, `month` and `total`
 *
 * Amounts of money are whole nano-units, which Lua's numbers hold exactly up to 9 million units.
 * The budget contains only money already spent. Reserved money counts in addition, until its lease
 * ends. Tokens count in the window from admission on, for one minute, even when their generation
 * runs longer. An expired lease returns what it reserved, in the window too.
 */
import { redisClock } from "#service/script.ts";
import { budgetLifeMs } from "./bounds.ts";
import { type BudgetPeriod, limitRows } from "./limits.ts";

/** The number of the period that contains a day, as a Lua expression. Day 0 was a Thursday. */
const periodNumbers: Record<BudgetPeriod, string> = {
  day: "day",
  week: "math.floor((day + 3) / 7)",
  month: "monthOf(day)",
  total: "0",
};

const luaTableOf = (fields: object) =>
  `{ ${Object.entries(fields)
    .map(([name, value]) => `${name} = ${value}`)
    .join(", ")} }`;

/** The rows of the limit table, in its order. */
const luaLimits = limitRows.map(({ counter, period }) =>
  luaTableOf({ counter: `'${counter}'`, ...(period && { period: `'${period}'` }) }),
);

const common = `${redisClock}
local windowSlots = 60
local windowMs = (windowSlots + 1) * 1000
local expiredMax = 1000
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
local function periodsOf(day) return ${luaTableOf(periodNumbers)} end
local function textOf(money) return string.format('%.0f', money) end
-- The window without slots older than a minute. A window from the future is deleted: the clock was set back.
local function windowOf(key)
  local slot = tonumber(time[1])
  local stored = redis.call('HMGET', key, 'from', 'r', 't', 'rl', 'tl', 'r' .. slot, 't' .. slot)
  local window = { from = tonumber(stored[1]) or slot - windowSlots + 1, r = tonumber(stored[2]) or 0, t = tonumber(stored[3]) or 0,
    rl = tonumber(stored[4]) or 0, tl = tonumber(stored[5]) or 0, rNow = tonumber(stored[6]) or 0, tNow = tonumber(stored[7]) or 0, slot = slot }
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
    if stored[1] then
      redis.call('HDEL', key, unpack(fields))
      redis.call('HSET', key, 'from', oldest)
      if stored[2] then redis.call('HSET', key, 'r', window.r) end
      if stored[3] then redis.call('HSET', key, 't', window.t) end
    end
  end
  return window
end
-- Subtracts from one second of the window, at most what that second still counts.
local function giveBack(key, letter, slot, count)
  local counted = math.min(count, tonumber(redis.call('HGET', key, letter .. slot)) or 0)
  if counted <= 0 then return end
  redis.call('HINCRBY', key, letter .. slot, -counted)
  redis.call('HINCRBY', key, letter, -counted)
end
local function storedOf(key)
  local stored, flat = {}, redis.call('HGETALL', key)
  for i = 1, #flat, 2 do stored[flat[i]] = tonumber(flat[i + 1]) end
  return stored
end
-- The money spent in each current period.
local function spentOf(key)
  local stored, spent = storedOf(key), {}
  for period, number in pairs(periodsOf(today)) do spent[period] = stored[period] == number and stored[period .. 'Nano'] or 0 end
  return spent
end
local function parsed(lease)
  local slot, tokens, money = string.match(lease, '^(%S+) (%S+) (%S+)$')
  return slot, tonumber(tokens), tonumber(money)
end
-- The end of the last lease deletes the sum, and with it any rounding error.
local function endLeases(runningKey, reservedKey, generations, money)
  redis.call('ZREM', runningKey, unpack(generations))
  redis.call('HDEL', reservedKey, unpack(generations))
  if redis.call('ZCARD', runningKey) == 0 then redis.call('DEL', reservedKey)
  elseif money > 0 then
    redis.call('HSET', reservedKey, 'nano', textOf(math.max(0, (tonumber(redis.call('HGET', reservedKey, 'nano')) or 0) - money)))
  end
end
local function endExpired(windowKey, runningKey, reservedKey)
  local expired = redis.call('ZRANGEBYSCORE', runningKey, '-inf', nowMs, 'LIMIT', 0, expiredMax)
  if #expired == 0 then return end
  local sum = 0
  for _, lease in ipairs(redis.call('HMGET', reservedKey, unpack(expired))) do
    if lease then
      local slot, tokens, money = parsed(lease)
      if tokens > 0 then giveBack(windowKey, 't', slot, tokens) end
      sum = sum + money
    end
  end
  endLeases(runningKey, reservedKey, expired, sum)
end
`;

/**
 * Admits a generation, or refuses it without counting anything. KEYS: for each subject its window,
 * running, reserved and budget. ARGV: the generation; its estimated input tokens; all tokens to
 * reserve; the money to reserve; the lifetime of its leases in milliseconds, 0 for no lease; 1, or
 * 0 to decide without counting; then for each subject the value of each limit in the order of the
 * limit table, "" for none. Returns 1 or 0. A refusal adds the subject's number, the limit's
 * number, 1 when the limit is a budget that is spent and not only reserved, and the milliseconds
 * until a retry can succeed (at most 60,000; without meaning for a spent budget). Then the time
 * (epoch milliseconds), and for each subject the requests, the milliseconds until none of them
 * counts, and the same for tokens. Atomic: it checks all limits of all subjects before it counts
 * anything. A limit admits a request that begins below it, so the last answer may exceed it, but
 * refuses an input that does not fit unless the window is empty. It first ends up to 1,000 expired
 * leases of each subject.
 */
export const admitScript = `${common}
local limits = { ${luaLimits.join(", ")} }
local subjects = #KEYS / 4
local input, tokens, money, lifeMs, counts = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6] == '1'
local function keysOf(subject) return KEYS[subject * 4 - 3], KEYS[subject * 4 - 2], KEYS[subject * 4 - 1], KEYS[subject * 4] end
local function limitOf(subject, place) return tonumber(ARGV[6 + (subject - 1) * #limits + place]) end
local function hasLimit(subject, counter)
  for place, limit in ipairs(limits) do
    if limit.counter == counter and limitOf(subject, place) then return true end
  end
  return false
end
local refusal
-- A spent budget comes before other refusals; among the rest, the longest wait.
local function refuse(subject, place, retryMs, isSpent)
  if not refusal or (isSpent and not refusal.isSpent) or (isSpent == refusal.isSpent and retryMs > refusal.retryMs) then
    refusal = { subject = subject, place = place, retryMs = retryMs, isSpent = isSpent }
  end
end
-- The milliseconds until enough of a window has passed to free the excess.
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
local windows, running, reserved, spent = {}, {}, {}, {}
local checks = {}
local function checkWindow(subject, place, letter, needed, max)
  local windowKey = keysOf(subject)
  windows[subject] = windows[subject] or windowOf(windowKey)
  local used = windows[subject][letter]
  if needed > 0 and used + needed > max then refuse(subject, place, waitOf(windowKey, windows[subject], letter, used + needed - max), false) end
end
function checks.requests(subject, place, max) checkWindow(subject, place, 'r', 1, max) end
function checks.tokens(subject, place, max)
  checkWindow(subject, place, 't', tokens > 0 and math.max(1, math.min(input, max)) or 0, max)
end
function checks.generations(subject, place, max)
  if lifeMs > 0 and running[subject] >= max then refuse(subject, place, 1000, false) end
end
function checks.money(subject, place, max)
  if money <= 0 then return end
  local _, _, reservedKey, budgetKey = keysOf(subject)
  spent[subject] = spent[subject] or spentOf(budgetKey)
  reserved[subject] = reserved[subject] or tonumber(redis.call('HGET', reservedKey, 'nano')) or 0
  local used = spent[subject][limits[place].period]
  -- Of several spent budgets, the last in the table is reported.
  if used + reserved[subject] >= max then refuse(subject, place, used >= max and place or 1000, used >= max) end
end
for subject = 1, subjects do
  local windowKey, runningKey, reservedKey = keysOf(subject)
  if lifeMs > 0 then
    endExpired(windowKey, runningKey, reservedKey)
    running[subject] = redis.call('ZCARD', runningKey)
  end
  for place, limit in ipairs(limits) do
    local max = limitOf(subject, place)
    if max then checks[limit.counter](subject, place, max) end
  end
end
if counts and not refusal then
  for subject = 1, subjects do
    local windowKey, runningKey, reservedKey = keysOf(subject)
    local window = windows[subject]
    local countsTokens = tokens > 0 and hasLimit(subject, 'tokens')
    if window then
      if window.rNow == 0 and window.tNow == 0 then window.isNew = true end
      local written = { 'from', window.from }
      if hasLimit(subject, 'requests') then
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
      if reserved[subject] then redis.call('HSET', reservedKey, ARGV[1], lease, 'nano', textOf(reserved[subject] + money))
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
 * Settles a generation: ends its leases and counts what it used. KEYS: the settled generations
 * (sorted set), then the keys of its admission. ARGV: the generation; the tokens and the nano-units
 * that it used; 1 when it never began, so that its request does not count either; for how many
 * milliseconds Redis remembers it as settled; when it was received, in epoch milliseconds; for each
 * subject 1 where tokens count, or 0; for each subject 1 where money counts, or 0; then other
 * settled generations that Redis may forget. Returns 1, or 0 when it was already settled. Atomic
 * and idempotent while Redis remembers the generation, whether its leases exist, expired, or were
 * lost with the counters. A reservation that was too large is returned only while it still counts;
 * the part beyond the reservation counts from now.
 */
export const settleScript = `${common}
local tokens, money, neverBegan, rememberMs = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1', tonumber(ARGV[5])
-- A process whose clock is ahead begins no period.
local periods = periodsOf(math.floor(math.min(tonumber(ARGV[6]), nowMs) / 86400000))
local subjects = (#KEYS - 1) / 4
local firstKnown = 7 + subjects * 2
if #ARGV >= firstKnown then redis.call('ZREM', KEYS[1], unpack(ARGV, firstKnown)) end
if redis.call('ZADD', KEYS[1], 'NX', nowMs, ARGV[1]) == 0 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', nowMs - rememberMs)
redis.call('PEXPIRE', KEYS[1], rememberMs)
for subject = 1, subjects do
  local first = subject * 4 - 2
  local windowKey, runningKey, reservedKey, budgetKey = KEYS[first], KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  local countsTokens, countsMoney = ARGV[6 + subject] == '1', ARGV[6 + subjects + subject] == '1'
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
    local stored = storedOf(budgetKey)
    for period, number in pairs(periods) do
      local present = stored[period] or -1
      -- A period that is over no longer limits anybody.
      if present <= number then
        redis.call('HSET', budgetKey, period, number, period .. 'Nano', textOf((present == number and stored[period .. 'Nano'] or 0) + money))
      end
    end
    redis.call('PEXPIRE', budgetKey, ${budgetLifeMs})
  end
end
return 1`;

/**
 * Reads what subjects use now. KEYS: for each subject its window, running and reserved. Returns for
 * each subject: the requests of the last minute, the milliseconds until none of them counts, the
 * same for tokens, the running generations, and the money that they reserve. Changes nothing but
 * what is over: it ends up to 1,000 expired leases of each subject.
 */
export const readScript = `${common}
local answer = {}
for subject = 1, #KEYS / 3 do
  local windowKey, runningKey, reservedKey = KEYS[subject * 3 - 2], KEYS[subject * 3 - 1], KEYS[subject * 3]
  endExpired(windowKey, runningKey, reservedKey)
  local window = windowOf(windowKey)
  for _, letter in ipairs({ 'r', 't' }) do
    answer[#answer + 1] = window[letter]
    answer[#answer + 1] = window[letter] == 0 and 0 or math.max(0, (window[letter .. 'l'] + windowSlots) * 1000 - nowMs)
  end
  answer[#answer + 1] = redis.call('ZCARD', runningKey)
  answer[#answer + 1] = redis.call('HGET', reservedKey, 'nano') or '0'
end
return answer`;

/**
 * Renews the leases of running generations. KEYS: for each subject, once, its running and its
 * reserved. ARGV: the lifetime of a lease in milliseconds; then for each lease its subject's
 * number, its generation and the money that it reserves there. Returns nothing. Atomic and
 * idempotent. It restores a lease that expired or was lost, without its tokens.
 */
export const renewScript = `${common}
local lifeMs = tonumber(ARGV[1])
for i = 2, #ARGV, 3 do
  local subject, generation, money = tonumber(ARGV[i]), ARGV[i + 1], ARGV[i + 2]
  local runningKey, reservedKey = KEYS[subject * 2 - 1], KEYS[subject * 2]
  if redis.call('ZADD', runningKey, nowMs + lifeMs, generation) == 1 then
    local sum = (tonumber(redis.call('HGET', reservedKey, 'nano')) or 0) + tonumber(money)
    redis.call('HSET', reservedKey, generation, time[1] .. ' 0 ' .. money, 'nano', textOf(sum))
  end
end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], lifeMs + windowMs) end`;
