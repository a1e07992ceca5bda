// Mail: mail, as config.yaml says at the moment.
// May import engine.

export { type Mailer, type MailSettings, mailer } from './mail.ts';
export { mailModule } from './module.ts';
export { mailTemplate } from './template.ts';
