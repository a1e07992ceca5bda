import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import handlebars from 'handlebars';
import { errors } from '../../engine/errors.ts';
import { slugsOf, type Tables, tablesOf } from '../../engine/tables/index.ts';
import { sealing } from '../../plugins/access/secrets/index.ts';
import { type Channels, PermanentError, RetryableError } from '../channels/index.ts';
import { ownProperty, type Webhooks } from '../endpoint/index.ts';
import { openIntegration } from '../inbox/index.ts';
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

/** The engine's own senders, keyed by their name in config.yaml. */
const senders: Readonly<Record<string, MessageSender>> = {
  log,
  whatsapp_cloud: whatsappCloud,
};

/** Time limit for sending a message through a channel, in milliseconds. The caller waits for it. */
const channelTimeoutMs = 10_000;

/** Sends a text through the oldest enabled integration of an organization with a channel. */
async function sendThrough(
  webhooks: Webhooks,
  channels: Channels,
  organization: string,
  provider: string,
  { to, text }: Outgoing,
): Promise<string> {
  const channel = ownProperty(channels, provider);
  if (channel?.send === undefined) throw new SendError(`the channel "${provider}" cannot send messages`);
  const sealed = sealing(webhooks.secrets);
  const key = { organization, provider };
  const integration = await openIntegration(tablesOf(webhooks.database), sealed, key);
  if (integration === undefined)
    throw new SendError(`the organization has no enabled integration with ${channel.label}`);
  const signal = AbortSignal.timeout(channelTimeoutMs);
  try {
    return await channel.send({ to, text }, { webhooks, integration, signal });
  } catch (cause) {
    if (cause instanceof RetryableError || cause instanceof PermanentError)
      throw new SendError(cause.message, { cause });
    throw cause;
  }
}

/**
 * Sends a message through the organization's sender and stores it, even if sending fails.
 * @param channels the instance's channels
 * @param organization the organization's ID
 * @returns the provider's message ID
 * @throws HttpError 400 if the template does not exist, 502 if the message could not be sent
 */
export async function send(
  webhooks: Webhooks,
  channels: Channels,
  organization: string,
  message: Message,
): Promise<string> {
  const { settings, database, log: logger } = webhooks;
  const { messaging, graph } = settings.current;
  const slugs = await slugsOf(tablesOf(database), organization);
  const sender = slugs.map((slug) => ownProperty(messaging, slug)).find((settings) => settings !== undefined);
  const outgoing = prepare(message, sender);
  try {
    if (sender === undefined) throw new SendError('no sender is configured for the organization');
    const own = ownProperty(senders, sender.sender);
    const id =
      own === undefined
        ? await sendThrough(webhooks, channels, organization, sender.sender, outgoing)
        : await own(outgoing, sender, graph, logger);
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
