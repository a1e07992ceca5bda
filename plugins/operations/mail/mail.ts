import { readFileSync } from 'node:fs';
import { unescape as decode } from 'node:querystring';
import type { FastifyBaseLogger } from 'fastify';
import handlebars, { type HelperOptions } from 'handlebars';
import { isLoopback } from '../../../engine/loopback.ts';
import { singleLine } from '../../../engine/tables/index.ts';

/** Email settings (`mail` in config.yaml). Blank values count as absent. */
export interface MailSettings {
  readonly from: string;
  /**
   * `smtp://user:password@host:587`, or `smtps:` for TLS from the start. If set, it is used instead of the properties
   * below.
   */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  /** Whether email can be sent to other machines without TLS. */
  readonly allow_plaintext: boolean;
}

/** A plain-text email. */
interface Mail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** Sends emails with the current settings. */
export interface Mailer {
  readonly isEnabled: () => boolean;
  /**
   * Reports whether emails can contain links. Links require `public_url`, because clients control the Host header.
   */
  readonly sendsLinks: () => boolean;
  /**
   * Sends an email.
   * @returns whether the mail server accepted it; if not, the reason is logged without email addresses or secrets
   */
  readonly send: (mail: Mail) => Promise<boolean>;
}

/** Connection and sending timeouts, in milliseconds. They are short because users wait for the page. */
const connectMs = 5000;
const sendMs = 15_000;

/** Creates an instance's mailer. @param publicUrl returns the configured origin, or `''` */
export function mailer(
  settings: () => MailSettings,
  publicUrl: () => string,
  log: Pick<FastifyBaseLogger, 'warn'>,
): Mailer {
  const isEnabled = () => settings().from.trim() !== '' && serverOf(settings()) !== undefined;
  return {
    isEnabled,
    sendsLinks: () => isEnabled() && publicUrl() !== '',
    send: async ({ to, subject, text }) => {
      const current = settings();
      const transport = await transportOf(current);
      if (transport === undefined) return false;
      const timeout = Promise.withResolvers<never>();
      const timer = setTimeout(
        () => timeout.reject(Object.assign(new Error(), { code: 'ETIMEDOUT' })),
        sendMs,
      );
      try {
        const message = {
          from: current.from,
          to: { name: '', address: to },
          subject: singleLine(subject),
          text,
        };
        await Promise.race([transport.sendMail(message), timeout.promise]);
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

/**
 * Creates a transport for the configured server without connecting to it. Returns undefined if no server is configured.
 */
export async function transportOf(settings: MailSettings) {
  const server = serverOf(settings);
  if (server === undefined) return undefined;
  // Loaded when the first email is sent, because many instances do not send any.
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

/** Returns the configured server, or undefined if none is configured. */
function serverOf({ url, host, port, user, password }: MailSettings) {
  if (url.trim() !== '') {
    if (!URL.canParse(url)) return undefined;
    const serverUrl = new URL(url);
    const secure = serverUrl.protocol === 'smtps:';
    const auth = serverUrl.username === '' ? {} : { auth: credentials(serverUrl) };
    return {
      host: serverUrl.hostname.replace(/^\[|\]$/g, ''),
      port: Number(serverUrl.port || (secure ? 465 : 587)),
      secure,
      ...auth,
    };
  }
  if (host.trim() === '') return undefined;
  return { host, port, secure: port === 465, ...(user === '' ? {} : { auth: { user, pass: password } }) };
}

/** Returns the credentials in a URL. Unlike `decodeURIComponent`, `decode` accepts a "%" that does not start an escape sequence. */
const credentials = ({ username, password }: URL) => ({
  user: decode(username),
  pass: decode(password),
});

/** Returns a text of a catalogue in a language. */
type TextOf<Language> = (
  language: Language,
  name: string,
  values: Readonly<Record<string, string | number>>,
) => string;

/**
 * Compiles a plain-text email from a Handlebars file. The first line is the subject, followed by a blank line
 * and the text. Values are reduced to single lines, so that a name cannot add headers or lines.
 * @param path the file's path
 * @param textOf finds the texts that the file names with the helper `t`
 */
export function mailTemplate<Language extends string>(
  path: string,
  textOf: TextOf<Language>,
): (to: string, language: Language, data: object) => Mail {
  const engine = handlebars.create();
  // The email is plain text, so HTML must not be escaped.
  const render = engine.compile(readFileSync(path, 'utf8'), { noEscape: true, strict: true });
  return (to, language, data) => {
    const t = (name: string, { hash }: HelperOptions) => textOf(language, name, hash);
    const [subject = '', , ...lines] = render(singleLines(data), { helpers: { t } }).split('\n');
    return { to, subject, text: lines.join('\n') };
  };
}

/**
 * Returns a link that contains its code as the fragment, which browsers do not send to servers. A script on the page
 * enters the code.
 */
export const linkWithCode = (link: string, code: string): string => `${link}#${code}`;

/** Returns a copy of template data with every string reduced to a single line. */
function singleLines(value: unknown): unknown {
  if (typeof value === 'string') return singleLine(value);
  if (Array.isArray(value)) return value.map(singleLines);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, singleLines(item)]));
}
