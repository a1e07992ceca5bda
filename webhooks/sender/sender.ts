import { HttpError } from '../../engine/errors.ts';
import { slugsOf, type Tables, tablesOf } from '../../engine/tables/index.ts';
import { ownProperty, type Webhooks } from '../endpoint/index.ts';
import type { SenderSettings } from '../settings/index.ts';
import { log } from './log.ts';
import { type MessageSender, type Outgoing, SendError } from './outgoing.ts';
import { renderTemplate } from './templates.ts';
import { whatsappCloud } from './whatsapp-cloud.ts';

/** A message to one person. */
export interface Message {
  readonly to: string;
  readonly message: string;
  readonly name: string;
  readonly template: string | undefined;
}

/** Every sender by the name that config.yaml uses. */
export const senders: Readonly<Record<SenderSettings['sender'], MessageSender>> = {
  log,
  whatsapp_cloud: whatsappCloud,
};

/**
 * Sends a message through the organization's sender and stores it, also if sending failed.
 * @param organization its ID
 * @returns the provider's id
 * @throws HttpError 400 for an unknown template, 502 if it was not sent
 */
export async function send(
  { settings, database, log: logger }: Webhooks,
  organization: string,
  message: Message,
): Promise<string> {
  const { messaging, graph } = settings.current;
  const slugs = await slugsOf(tablesOf(database), organization);
  const chosen = slugs.map((slug) => ownProperty(messaging, slug)).find((sender) => sender !== undefined);
  const outgoing = prepare(message, chosen);
  try {
    if (chosen === undefined) throw new SendError('the organization has no sender');
    const id = await senders[chosen.sender](outgoing, chosen, graph, logger);
    await keep(tablesOf(database), organization, message, {
      status: 'sent',
      provider_id: id,
      error: null,
    });
    return id;
  } catch (cause) {
    if (!(cause instanceof SendError)) throw cause;
    const failed = { status: 'failed', provider_id: null, error: cause.message };
    await keep(tablesOf(database), organization, message, failed);
    throw new HttpError(502, 'send_failed', 'the message was not sent', {}, { cause });
  }
}

/** The provider's template if the sender has one of that name, else one of ours, else the text. */
function prepare(message: Message, settings: SenderSettings | undefined): Outgoing {
  const { to, message: text, name, template } = message;
  if (template === undefined || template === '') return { to, text };
  const provider = ownProperty(settings?.templates, template);
  if (provider !== undefined) {
    return { to, text, template: { ...provider, parameters: [name, text].filter((each) => each !== '') } };
  }
  return { to, text: renderTemplate(template, { name, message: text }) };
}

async function keep(
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
