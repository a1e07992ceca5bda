import type { FastifyBaseLogger } from 'fastify';
import { isLoopback } from '../../../engine/loopback.ts';
import { singleLine } from '../../../engine/tables/index.ts';

/** How mail is sent (`mail` in config.yaml); blank parts count as absent. */
export interface MailSettings {
  readonly from: string;
  /** `smtp://user:password@host:587`, or `smtps:` for TLS from the start; instead of the parts below. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  /** Whether mail may be sent without TLS to other machines. */
  readonly allow_plaintext: boolean;
}

/** A message in plain text. */
export interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** Sends mail with the current settings. */
export interface Mailer {
  readonly isOn: () => boolean;
  /** Whether mail may hold links: only if `public_url` is set, because a caller decides what Host says. */
  readonly sendsLinks: () => boolean;
  /** @returns whether the server accepted it; the reason for a failure is logged, without addresses and secrets */
  readonly send: (mail: Mail) => Promise<boolean>;
}

/** Time limits in milliseconds; short, because people wait for the page. */
const connectMs = 5000;
const longestMs = 15_000;

/** @param publicUrl the configured origin, or `''` */
export function mailer(
  settings: () => MailSettings,
  publicUrl: () => string,
  log: Pick<FastifyBaseLogger, 'warn'>,
): Mailer {
  const isOn = () => settings().from.trim() !== '' && serverOf(settings()) !== undefined;
  return {
    isOn,
    sendsLinks: () => isOn() && publicUrl() !== '',
    send: async ({ to, subject, text }) => {
      const current = settings();
      const transport = await transportOf(current);
      if (transport === undefined) return false;
      const late = Promise.withResolvers<never>();
      const timer = setTimeout(
        () => late.reject(Object.assign(new Error(), { code: 'ETIMEDOUT' })),
        longestMs,
      );
      try {
        const message = {
          from: current.from,
          to: { name: '', address: to },
          subject: singleLine(subject),
          text,
        };
        await Promise.race([transport.sendMail(message), late.promise]);
        return true;
      } catch (cause) {
        const { code, responseCode } = cause as { code?: string; responseCode?: number };
        log.warn({ code, response_code: responseCode }, 'email rejected by the server');
        return false;
      } finally {
        clearTimeout(timer);
        transport.close();
      }
    },
  };
}

/** A connection to the server to send through, not opened yet; undefined if none is configured. */
export async function transportOf(settings: MailSettings) {
  const server = serverOf(settings);
  if (server === undefined) return undefined;
  // Loaded with the first mail: many instances send none.
  const { createTransport } = await import('nodemailer');
  return createTransport({
    ...server,
    requireTLS: !settings.allow_plaintext && !isLoopback(server.host),
    connectionTimeout: connectMs,
    greetingTimeout: connectMs,
    socketTimeout: connectMs,
    dnsTimeout: connectMs,
  });
}

/** The server to send through; undefined if none is configured. */
function serverOf({ url, host, port, user, password }: MailSettings) {
  if (url.trim() !== '') {
    if (!URL.canParse(url)) return undefined;
    const parsed = new URL(url);
    const secure = parsed.protocol === 'smtps:';
    const auth = parsed.username === '' ? {} : { auth: credentials(parsed) };
    return {
      host: parsed.hostname.replace(/^\[|\]$/g, ''),
      port: Number(parsed.port || (secure ? 465 : 587)),
      secure,
      ...auth,
    };
  }
  if (host.trim() === '') return undefined;
  return { host, port, secure: port === 465, ...(user === '' ? {} : { auth: { user, pass: password } }) };
}

const credentials = ({ username, password }: URL) => ({
  user: decodeURIComponent(username),
  pass: decodeURIComponent(password),
});
