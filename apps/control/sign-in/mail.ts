/**
 * Mails with links. They are sent in the background: an answer neither waits for the mail server
 * nor shows whether an address is known.
 */
import { createTransport, type Transporter } from "nodemailer";
import type { Logger } from "pino";
import { mailMs, mailsMax, mailTotalMs } from "../bounds.ts";
import type { InstallationValues } from "../config.ts";

export interface Mail {
  /** Whether there is a mail server now. */
  isAvailable(): boolean;
  /**
   * False without a mail server, and if too many mails wait for it; a failure is logged without the
   * address.
   */
  send(to: string, subject: string, text: string): boolean;
  /**
   * Waits for the mail server. Resolves to what went wrong, without secrets; undefined if it took
   * the mail.
   */
  deliver(to: string, subject: string, text: string): Promise<string | undefined>;
  close(): void;
}

type MailSettings = Pick<InstallationValues, "name" | "smtpUrl" | "mailFrom">;

/** Follows the settings. A mail that takes longer than `totalMs` is given up. */
export function createMail(settings: () => MailSettings, log: Logger, totalMs = mailTotalMs): Mail {
  let connected: { url: string; transport: Transporter } | undefined;
  const transportOf = (url: string): Transporter => {
    if (connected?.url !== url) {
      connected?.transport.close();
      connected = { url, transport: transportTo(url) };
    }
    return connected.transport;
  };
  let sending = 0;
  const deliver: Mail["deliver"] = async (to, subject, text) => {
    const { smtpUrl: url, mailFrom, name } = settings();
    if (url === undefined) return "no mail server";
    if (sending >= mailsMax) return "too many mails wait for the mail server";
    sending++;
    try {
      // A variable may name the sender too.
      const from = mailFrom.includes("<") ? mailFrom : { name, address: mailFrom };
      const signal = AbortSignal.timeout(totalMs);
      await transportOf(url).sendMail({ from, to: { name: "", address: to }, subject, text, signal });
      return undefined;
    } catch (error) {
      const { code = "error", responseCode } = error as { code?: string; responseCode?: number };
      log.warn({ code, responseCode, subject }, "a mail was not sent");
      return responseCode === undefined ? code : `${code} ${responseCode}`;
    } finally {
      sending--;
    }
  };
  return {
    isAvailable: () => settings().smtpUrl !== undefined,
    send(to, subject, text) {
      if (settings().smtpUrl === undefined || sending >= mailsMax) return false;
      void deliver(to, subject, text);
      return true;
    },
    deliver,
    close: () => connected?.transport.close(),
  };
}

function transportTo(url: string): Transporter {
  const { protocol, hostname, port, username, password } = new URL(url);
  const isSecure = protocol === "smtps:";
  return createTransport({
    host: hostname,
    port: Number(port) || (isSecure ? 465 : 587),
    secure: isSecure,
    ...(username !== "" && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    connectionTimeout: mailMs,
    greetingTimeout: mailMs,
    socketTimeout: mailMs,
    // Texts are ours; neither files nor addresses are read.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}
