// Sender: messages to people: templates, providers, what became of each.
// May import engine, settings, endpoint.

export { senderModule } from './module.ts';
export { send } from './sender.ts';
