import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import handlebars from 'handlebars';
import { errors } from '../../engine/errors.ts';
import { slugsOf, type Tables, tablesOf } from '../../engine/tables/index.ts';
import { ownProperty, type Webhooks } from '../endpoint/index.ts';
import type { SenderSettings } from '../settings/index.ts';
import { type MessageSender, type Outgoing, SendError } from './outgoing.ts';
import { whatsappCloud } from './whatsapp-cloud.ts';

/** A sender for development that only logs that it was called, without the phone number or message text. */
const log: MessageSender = async ({ text, template }, _settings, _graph, logInfo) => {
  const id = `log.${randomUUID()}`;
  logInfo(
    { message_id: id, characters: text.length, template: template?.name },
    'message not sent: the sender "log" only logs messages',
  );
  return id;
};

const folder = join(import.meta.dirname, 'templates');
const engine = handlebars.create();

/** Plain-text message templates (templates/*.hbs), compiled at startup. */
const templates = new Map(
  readdirSync(folder)
    .filter((file) => file.endsWith('.hbs'))
    .map((file) => {
      const text = readFileSync(join(folder, file), 'utf8').trim();
      // Messages are plain text, so HTML must not be escaped.
      return [file.slice(0, -4), engine.compile(text, { noEscape: true, strict: true })] as const;
    }),
);

/**
 * Renders a template. The data is never evaluated as a template.
 * @throws HttpError 400 if the template does not exist
 */
function renderTemplate(name: string, data: Readonly<Record<string, string>>): string {
  const template = templates.get(name);
  if (template === undefined) {
    const names = [...templates.keys()].join(', ');
    throw errors.invalidFields([{ field: 'template', message: `template must be one of ${names}` }]);
  }
  return template(data, { allowProtoMethodsByDefault: false, allowProtoPropertiesByDefault: false });
}

/** A message to one recipient. */
interface Message {
  readonly to: string;
  readonly message: string;
  readonly name: string;
  readonly template: string | undefined;
}

/** All senders, keyed by their name in config.yaml. */
const senders: Readonly<Record<SenderSettings['sender'], MessageSender>> = {
  log,
  whatsapp_cloud: whatsappCloud,
};

/**
 * Sends a message through the organization's sender and stores it, even if sending fails.
 * @param organization the organization's ID
 * @returns the provider's message ID
 * @throws HttpError 400 if the template does not exist, 502 if the message could not be sent
 */
export async function send(
  { settings, database, log: logger }: Webhooks,
  organization: string,
  message: Message,
): Promise<string> {
  const { messaging, graph } = settings.current;
  const slugs = await slugsOf(tablesOf(database), organization);
  const sender = slugs.map((slug) => ownProperty(messaging, slug)).find((settings) => settings !== undefined);
  const outgoing = prepare(message, sender);
  try {
    if (sender === undefined) throw new SendError('no sender is configured for the organization');
    const id = await senders[sender.sender](outgoing, sender, graph, logger);
    await storeMessage(tablesOf(database), organization, message, {
      status: 'sent',
      provider_id: id,
      error: null,
    });
    return id;
  } catch (cause) {
    if (!(cause instanceof SendError)) throw cause;
    const failure = { status: 'failed', provider_id: null, error: cause.message };
    await storeMessage(tablesOf(database), organization, message, failure);
    throw errors.sendFailed(cause);
  }
}

/**
 * Resolves a message's template, looking first at the sender's provider templates and then at the built-in templates.
 */
function prepare(message: Message, settings: SenderSettings | undefined): Outgoing {
  const { to, message: text, name, template } = message;
  if (template === undefined || template === '') return { to, text };
  const provider = ownProperty(settings?.templates, template);
  if (provider !== undefined) {
    return {
      to,
      text,
      template: { ...provider, parameters: [name, text].filter((parameter) => parameter !== '') },
    };
  }
  return { to, text: renderTemplate(template, { name, message: text }) };
}

async function storeMessage(
  tables: Tables,
  organization_id: string,
  { to, message, template = '' }: Message,
  outcome: { status: string; provider_id: string | null; error: string | null },
): Promise<void> {
  await tables
    .insertInto('crm_messages')
    .values({ organization_id, recipient: to, body: message, template, ...outcome })
    .execute();
}
