import { fetchJson, UnreachableError } from '../endpoint/index.ts';
import { type MessageSender, type Outgoing, SendError } from './outgoing.ts';

/** Maximum length of a text message on WhatsApp, in characters. */
const maxText = 4096;

/** A phone number in international format, with common punctuation. */
const phoneNumber = /^\+?[\d ().-]{5,30}$/;

/** Sends messages through the WhatsApp Cloud API: POST <graph>/<version>/<phone number ID>/messages. */
export const whatsappCloud: MessageSender = async (message, settings, graph) => {
  if ([...message.text].length > maxText)
    throw new SendError(`the text is longer than ${maxText} characters`);
  // Only the digits are sent, so a string with other characters could become a stranger's phone number.
  if (!phoneNumber.test(message.to)) throw new SendError('the recipient is not a phone number');
  const { phone_number_id = '', access_token = '' } = settings;
  if (access_token.trim() === '') throw new SendError('the access token is not set');
  const path = `/${graph.version}/${encodeURIComponent(phone_number_id)}/messages`;
  try {
    const { status, body } = await fetchJson(graph.base_url, path, {
      method: 'POST',
      token: access_token,
      timeoutMs: graph.timeout_ms,
      body: payload(message),
    });
    const id = (body as { messages?: { id?: unknown }[] } | undefined)?.messages?.[0]?.id;
    if (status >= 200 && status < 300 && typeof id === 'string') return id;
    throw new SendError(`WhatsApp responded with ${status}`);
  } catch (cause) {
    if (cause instanceof UnreachableError) throw new SendError(cause.message, { cause });
    throw cause;
  }
};

function payload({ to, text, template }: Outgoing): object {
  const common = { messaging_product: 'whatsapp', to: to.replace(/[^\d+]/g, '') };
  if (template === undefined) return { ...common, type: 'text', text: { body: text } };
  const parameters = template.parameters.map((value) => ({ type: 'text', text: value }));
  return {
    ...common,
    type: 'template',
    template: {
      name: template.name,
      language: { code: template.language },
      components: [{ type: 'body', parameters }],
    },
  };
}
