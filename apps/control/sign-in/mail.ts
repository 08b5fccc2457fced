/** Mails with links. They are sent in the background: an answer neither waits for the mail server nor shows whether an address is known. */
import { createTransport } from "nodemailer";
import type { Logger } from "pino";
import { StartupFault } from "#service/startup.ts";
import { mailMs, mailsMax } from "../bounds.ts";

export interface Mail {
  /** False if too many mails wait for the server; a failure is logged without the address. */
  send(to: string, subject: string, text: string): boolean;
  close(): void;
}

/** Undefined without a mail server. Throws a StartupFault for an address that is none. */
export function createMail(
  { smtpUrl, mailFrom }: { smtpUrl: string | undefined; mailFrom: string },
  log: Logger,
): Mail | undefined {
  if (smtpUrl === undefined) return undefined;
  const { protocol, hostname, port, username, password } = parsed(smtpUrl);
  const isSecure = protocol === "smtps:";
  const transport = createTransport({
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
  let sending = 0;
  return {
    send(to, subject, text) {
      if (sending >= mailsMax) return false;
      sending++;
      transport
        .sendMail({ from: mailFrom, to: { name: "", address: to }, subject, text })
        .catch(({ code, responseCode }: { code?: string; responseCode?: number }) =>
          log.warn({ code, responseCode, subject }, "a mail was not sent"),
        )
        .finally(() => sending--);
      return true;
    },
    close: () => transport.close(),
  };
}

function parsed(url: string): URL {
  if (/^smtps?:\/\/./.test(url) && URL.canParse(url)) return new URL(url);
  throw new StartupFault("SMTP_URL must be smtp:// or smtps:// and a host");
}
