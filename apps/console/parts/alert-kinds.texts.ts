/** The kinds of alerts in words. */
export const alertKinds = {
  en: {
    "budget.share": "80 % of a budget are spent",
    "budget.spent": "A budget is spent",
    "key.expiring": "A key expires soon",
    "key.revoked": "A key was revoked",
    "webhook.disabled": "A webhook was disabled",
  },
  zh: {
    "budget.share": "预算已用 80 %",
    "budget.spent": "预算已用完",
    "key.expiring": "密钥即将过期",
    "key.revoked": "密钥已吊销",
    "webhook.disabled": "Webhook 已停用",
  },
};
