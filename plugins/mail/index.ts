// mail:
// May import

export { type Mailer, type MailSettings, mailer } from './mail.ts';
export { mailTemplate } from './template.ts';
