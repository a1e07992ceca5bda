// Mail: sends email with the current settings in config.yaml.
// May import engine.

export { type Mailer, type MailSettings, mailer } from './mail.ts';
export { mailModule } from './module.ts';
export { mailTemplate } from './template.ts';
