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
local leasesReadMax = 64
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
  local stored = redis.call('HMGET', key, letter .. slot, letter)
  local second, sum = tonumber(stored[1]) or 0, tonumber(stored[2]) or 0
  local counted = math.min(count, second)
  if counted > 0 then redis.call('HSET', key, letter .. slot, second - counted, letter, sum - counted) end
end
-- Adds to the current second of a window that was just read; \`added\` is by letter.
local function addTo(key, window, added)
  local written = {}
  for _, letter in ipairs({ 'r', 't' }) do
    if added[letter] > 0 then
      for _, part in ipairs({ letter, window[letter] + added[letter], letter .. 'l', window.slot, letter .. window.slot, window[letter .. 'Now'] + added[letter] }) do
        written[#written + 1] = part
      end
    end
  end
  if #written == 0 then return end
  redis.call('HSET', key, 'from', window.from, unpack(written))
  if window.rNow == 0 and window.tNow == 0 then redis.call('PEXPIRE', key, windowMs) end
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
 * Admits generations of the same subjects, one after the other, or refuses one without counting
 * anything of it. KEYS: for each subject its window, running, reserved and budget. ARGV: the
 * lifetime of the leases in milliseconds, 0 for no lease; `admit`, `look` to decide without
 * counting, or `count` to refuse nothing, because they were admitted before; for each subject the
 * value of each limit in the order of the limit table, "" for none; then for each generation its
 * name, its estimated input tokens, all tokens to reserve and the money to reserve. Returns numbers
 * in a text, with spaces between them, equally many for each generation, or with `count` for the
 * last one alone: 1 or 0; in a refusal the subject's number, the limit's number, 1 when the limit
 * is a budget that is spent and not only reserved, and the milliseconds until a retry can succeed
 * (at most 60,000; a second where the end of running generations may free the tokens; without
 * meaning for a spent budget); then the time (epoch milliseconds), and for each subject the
 * requests, the milliseconds until none of them counts, and the same for tokens. At the end, for
 * each subject its running generations and the nano-units that all of its budgets have left, 0 if
 * no generation costs anything. Atomic: it checks all limits of all subjects before it counts
 * anything. A limit admits a request that begins below it, so the last answer may exceed it, but
 * refuses an input that does not fit unless the window is empty. It first ends up to 1,000 expired
 * leases of each subject. Each counter is read and written once, however many generations there
 * are.
 */
export const admitScript = `${common}
local limits = { ${luaLimits.join(", ")} }
local subjects = #KEYS / 4
local lifeMs, mode = tonumber(ARGV[1]), ARGV[2]
local none = { r = 0, t = 0, rl = 0, tl = 0 }
-- The milliseconds until nothing counts of a window whose last count is in this slot.
local function resetOf(slot) return math.max(0, (slot + windowSlots) * 1000 - nowMs) end
-- A subject: its keys, its limits by counter with their places in the table, its budgets, and its counts.
local function subjectOf(subject)
  local own = { windowKey = KEYS[subject * 4 - 3], runningKey = KEYS[subject * 4 - 2], reservedKey = KEYS[subject * 4 - 1],
    budgetKey = KEYS[subject * 4], max = {}, places = {}, budgets = {}, fields = {} }
  for place = 1, #limits do
    local max, limit = tonumber(ARGV[2 + (subject - 1) * #limits + place]), limits[place]
    if max and limit.period then own.budgets[#own.budgets + 1] = { place = place, max = max, period = limit.period }
    elseif max then own.max[limit.counter], own.places[limit.counter] = max, place end
  end
  if lifeMs > 0 then
    endExpired(own.windowKey, own.runningKey, own.reservedKey)
    own.running = redis.call('ZCARD', own.runningKey)
    own.wasIdle = own.running == 0
  end
  own.window = (own.max.requests or own.max.tokens) and windowOf(own.windowKey) or none
  own.r, own.t = own.window.r, own.window.t
  own.rReset, own.tReset = resetOf(own.window.rl), resetOf(own.window.tl)
  return own
end
-- Reads what a subject has spent and reserved. \`room\` is what it may reserve before a budget refuses.
local function readBudgets(own)
  local spent = spentOf(own.budgetKey)
  own.reserved, own.room = tonumber(redis.call('HGET', own.reservedKey, 'nano')) or 0, math.huge
  for _, budget in ipairs(own.budgets) do
    budget.spent = spent[budget.period]
    own.room = math.min(own.room, budget.max - budget.spent)
  end
end
-- The milliseconds until enough of a window has passed to free the excess. \`count\` is that of its current second.
local function waitOf(own, letter, count, excess)
  local fields, window = {}, own.window
  for slot = window.from, window.slot - 1 do fields[#fields + 1] = letter .. slot end
  local values = #fields > 0 and redis.call('HMGET', own.windowKey, unpack(fields)) or {}
  values[#fields + 1] = count
  local freed = 0
  for i = 1, #values do
    freed = freed + (tonumber(values[i]) or 0)
    if freed >= excess then return (window.from + i - 1 + windowSlots) * 1000 - nowMs end
  end
  return windowSlots * 1000
end
-- Whether the end of running generations may free so many tokens: it returns what they reserved and did not use.
local function mayFree(own, excess)
  if lifeMs == 0 or own.running == 0 then return false end
  if own.running > leasesReadMax then return true end
  if not own.held then
    own.held = 0
    for _, leases in ipairs({ own.fields, redis.call('HVALS', own.reservedKey) }) do
      for _, lease in ipairs(leases) do
        local slot, tokens = parsed(lease)
        if tokens and tonumber(slot) >= own.window.from then own.held = own.held + tokens end
      end
    end
  end
  return own.held >= excess
end
local refusal
-- A spent budget comes before other refusals; among the rest, the longest wait.
local function refuse(subject, place, retryMs, isSpent)
  if not refusal or (isSpent and not refusal.isSpent) or (isSpent == refusal.isSpent and retryMs > refusal.retryMs) then
    refusal = { subject = subject, place = place, retryMs = retryMs, isSpent = isSpent }
  end
end
local function check(subject, own, input, tokens, money)
  local max, window = own.max, own.window
  if max.requests and own.r + 1 > max.requests then
    refuse(subject, own.places.requests, waitOf(own, 'r', window.rNow + own.r - window.r, own.r + 1 - max.requests), false)
  end
  if max.tokens and tokens > 0 then
    local excess = own.t + math.max(1, math.min(input, max.tokens)) - max.tokens
    if excess > 0 then
      local retryMs = waitOf(own, 't', window.tNow + own.t - window.t, excess)
      refuse(subject, own.places.tokens, retryMs > 1000 and mayFree(own, excess) and 1000 or retryMs, false)
    end
  end
  if max.generations and lifeMs > 0 and own.running >= max.generations then refuse(subject, own.places.generations, 1000, false) end
  if money > 0 and own.budgets[1] and own.reserved >= own.room then
    for _, budget in ipairs(own.budgets) do
      local isSpent = budget.spent >= budget.max
      -- Of several spent budgets, the last in the table is reported.
      if budget.spent + own.reserved >= budget.max then refuse(subject, budget.place, isSpent and budget.place or 1000, isSpent) end
    end
  end
end
local second, fullReset = time[1] .. ' ', tostring(resetOf(tonumber(time[1])))
-- \`at\`: the place of the generation's arguments.
local function count(own, at, tokens, money)
  local tokensText, moneyText = '0', '0'
  if own.max.requests then own.r, own.rReset = own.r + 1, fullReset end
  if own.max.tokens and tokens > 0 then own.t, own.tReset, tokensText = own.t + tokens, fullReset, ARGV[at + 2] end
  if lifeMs > 0 then own.running = own.running + 1 end
  if own.held then own.held = own.held + tokens end
  if own.room and money > 0 then own.reserved, own.reserves, moneyText = own.reserved + money, true, ARGV[at + 3] end
  own.fields[#own.fields + 1] = ARGV[at]
  own.fields[#own.fields + 1] = second .. tokensText .. ' ' .. moneyText
end
local owners, leases, answer, last = {}, {}, {}, 0
for subject = 1, subjects do owners[subject] = subjectOf(subject) end
local expiry, admitted = textOf(nowMs + lifeMs), '1 0 0 0 0 ' .. textOf(nowMs)
for at = 3 + subjects * #limits, #ARGV, 4 do
  local input, tokens, money = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  refusal = nil
  for subject = 1, subjects do
    local own = owners[subject]
    if money > 0 and own.budgets[1] and not own.room then readBudgets(own) end
    if mode ~= 'count' then check(subject, own, input, tokens, money) end
  end
  if mode ~= 'look' and not refusal then
    for subject = 1, subjects do count(owners[subject], at, tokens, money) end
    leases[#leases + 1] = expiry
    leases[#leases + 1] = ARGV[at]
  end
  if mode ~= 'count' or at + 4 > #ARGV then
    answer[last + 1] = refusal
      and table.concat({ 0, refusal.subject, refusal.place, refusal.isSpent and 1 or 0, refusal.retryMs, textOf(nowMs) }, ' ') or admitted
    last = last + 1
    for subject = 1, subjects do
      local own = owners[subject]
      answer[last + 1], answer[last + 2], answer[last + 3], answer[last + 4] = own.r, own.rReset, own.t, own.tReset
      last = last + 4
    end
  end
end
for subject = 1, subjects do
  local own = owners[subject]
  answer[last + 1], answer[last + 2] = own.running or 0, own.room and textOf(math.max(0, own.room - own.reserved)) or 0
  last = last + 2
  addTo(own.windowKey, own.window, { r = own.r - own.window.r, t = own.t - own.window.t })
  if lifeMs > 0 and #leases > 0 then
    if own.reserves then own.fields[#own.fields + 1], own.fields[#own.fields + 2] = 'nano', textOf(own.reserved) end
    redis.call('ZADD', own.runningKey, unpack(leases))
    redis.call('HSET', own.reservedKey, unpack(own.fields))
    if own.wasIdle then
      redis.call('PEXPIRE', own.runningKey, lifeMs + windowMs)
      redis.call('PEXPIRE', own.reservedKey, lifeMs + windowMs)
    end
  end
end
return table.concat(answer, ' ')`;

/**
 * Settles generations of the same subjects: ends their leases and counts what they used. KEYS: the
 * settled generations (sorted set), then the keys of their admission. ARGV: for how many
 * milliseconds Redis remembers them as settled; how many they are; for each subject 1 where tokens
 * count, or 0; the same for money, and for requests; for each generation its name, the tokens and
 * the nano-units that it used, 1 if its admission was not counted before, so that its request
 * counts now, -1 if it never began, so that its request does not count, otherwise 0, and when it
 * was received, in epoch milliseconds; then other settled generations that Redis may forget. Atomic
 * and idempotent while Redis remembers the generations, whether their leases exist, expired, or
 * were lost with the counters. A reservation that was too large is returned only while it still
 * counts; the part beyond the reservation counts from now.
 */
export const settleScript = `${common}
local rememberMs, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local subjects = (#KEYS - 1) / 4
local first = 3 + subjects * 3
local firstKnown = first + count * 5
if #ARGV >= firstKnown then redis.call('ZREM', KEYS[1], unpack(ARGV, firstKnown)) end
local all, names, settled, isNamed = {}, {}, {}, {}
for at = first, firstKnown - 1, 5 do all[#all + 1] = ARGV[at] end
local now = textOf(nowMs)
-- Of each generation to settle.
local tokensOf, moneyOf, requestsOf, dayOf = {}, {}, {}, {}
for i, settledAt in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(all))) do
  local name, at = all[i], first + (i - 1) * 5
  if not settledAt and not isNamed[name] then
    isNamed[name] = true
    local place = #names + 1
    names[place] = name
    settled[place * 2 - 1], settled[place * 2] = now, name
    tokensOf[place], moneyOf[place], requestsOf[place] = tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
    -- A process whose clock is ahead begins no period.
    dayOf[place] = math.floor(math.min(tonumber(ARGV[at + 4]), nowMs) / 86400000)
  end
end
if #names == 0 then return end
redis.call('ZADD', KEYS[1], unpack(settled))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', nowMs - rememberMs)
redis.call('PEXPIRE', KEYS[1], rememberMs)
local function spend(budgetKey, spent)
  local stored, written = storedOf(budgetKey), {}
  for day, money in pairs(spent) do
    for period, number in pairs(periodsOf(day)) do
      local present = stored[period] or -1
      -- A period that is over no longer limits anybody.
      if present <= number then
        stored[period], stored[period .. 'Nano'] = number, (present == number and stored[period .. 'Nano'] or 0) + money
        written[period] = true
      end
    end
  end
  local fields = {}
  for period in pairs(written) do
    for _, part in ipairs({ period, stored[period], period .. 'Nano', textOf(stored[period .. 'Nano']) }) do fields[#fields + 1] = part end
  end
  if #fields > 0 then
    redis.call('HSET', budgetKey, unpack(fields))
    redis.call('PEXPIRE', budgetKey, ${budgetLifeMs})
  end
end
for subject = 1, subjects do
  local own = subject * 4 - 2
  local windowKey, runningKey, reservedKey, budgetKey = KEYS[own], KEYS[own + 1], KEYS[own + 2], KEYS[own + 3]
  local countsTokens, countsMoney = ARGV[2 + subject] == '1', ARGV[2 + subjects + subject] == '1'
  local countsRequests = ARGV[2 + subjects * 2 + subject] == '1'
  local ended, endedMoney, more, spent = {}, 0, { r = 0, t = 0 }, {}
  -- What goes back, by letter and second.
  local back = { t = {}, r = {} }
  for i, lease in ipairs(redis.call('HMGET', reservedKey, unpack(names))) do
    local beyond = tokensOf[i]
    if lease then
      local slot, leaseTokens, leaseMoney = parsed(lease)
      beyond = beyond - leaseTokens
      if beyond < 0 then back.t[slot] = (back.t[slot] or 0) - beyond end
      if requestsOf[i] < 0 then back.r[slot] = (back.r[slot] or 0) + 1 end
      ended[#ended + 1] = names[i]
      endedMoney = endedMoney + leaseMoney
    elseif countsRequests and requestsOf[i] > 0 then more.r = more.r + 1
    end
    if countsTokens and beyond > 0 then more.t = more.t + beyond end
    if countsMoney and moneyOf[i] > 0 then spent[dayOf[i]] = (spent[dayOf[i]] or 0) + moneyOf[i] end
  end
  for letter, slots in pairs(back) do
    for slot, amount in pairs(slots) do giveBack(windowKey, letter, slot, amount) end
  end
  if #ended > 0 then endLeases(runningKey, reservedKey, ended, endedMoney) end
  if more.r > 0 or more.t > 0 then addTo(windowKey, windowOf(windowKey), more) end
  if next(spent) then spend(budgetKey, spent) end
end`;

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
