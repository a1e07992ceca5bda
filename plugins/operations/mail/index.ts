// Mail: sends email with the current settings in config.yaml.
// May import engine.

export { type Mailer, type MailSettings, mailer, mailTemplate } from './mail.ts';
export { mailModule } from './module.ts';
