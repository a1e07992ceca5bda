// Mail: mail, as config.yaml says at the moment.
// May import nothing of ours.

export { type Mailer, type MailSettings, mailer } from './mail.ts';
export { mailTemplate } from './template.ts';
