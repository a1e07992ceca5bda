// Sender: outgoing messages, with their templates, providers and status.
// May import engine, settings, endpoint.

export { senderModule } from './module.ts';
export { send } from './sender.ts';
