// Mail: sends email with the current settings from config.yaml.
// May import engine.

import type { DoctorCheck, Module } from '../../../engine/modules/index.ts';
import { type MailSettings, transportOf } from './mail.ts';

export { linkWithCode, type Mailer, type MailSettings, mailer, mailTemplate } from './mail.ts';

interface CheckServices {
  readonly settings: { readonly mail: MailSettings };
}

/** Checks that the mail server accepts a connection and the configured login. */
const mailServer: DoctorCheck<CheckServices> = {
  name: 'mail',
  needs: ['settings'],
  run: async ({ settings: { mail } }) => {
    const isNamed = mail.url.trim() !== '' || mail.host.trim() !== '';
    const hasSender = mail.from.trim() !== '';
    if (!isNamed && !hasSender) {
      const message =
        'no mail server is configured, so administrators must pass on invitations and password reset links';
      const advice = 'Set MAIL_FROM and SMTP_URL, for example smtp://user:password@mail.example.org:587.';
      return [{ location: 'mail', message, advice, isNote: true }];
    }
    if (!hasSender || !isNamed) {
      const message = `mail cannot be sent because ${hasSender ? 'the mail server' : 'the sender'} is not configured`;
      return [{ location: 'mail', message, advice: hasSender ? 'Set SMTP_URL.' : 'Set MAIL_FROM.' }];
    }
    const transport = await transportOf(mail);
    try {
      if (transport === undefined) throw new Error('SMTP_URL is not a valid URL');
      await transport.verify();
      return [];
    } catch (cause) {
      const {
        code,
        responseCode,
        message: reply,
      } = cause as Error & { code?: string; responseCode?: number };
      // The server's message may echo the request.
      const reason = responseCode === undefined ? reply.split('\n')[0] : `${code} ${responseCode}`;
      const message = `the mail server rejected the connection or the login (${reason})`;
      const advice = 'Check that it is running, and that SMTP_URL contains its host, user and password.';
      return [{ location: 'mail', message, advice }];
    } finally {
      transport?.close();
    }
  },
};

/** Checks the email configuration. The module does not have routes, because other modules send the emails. */
export const mailModule: Module<unknown, unknown, CheckServices> = { name: 'mail', checks: [mailServer] };
