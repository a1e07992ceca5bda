// sender:
// May import

export { senderModule } from './module.ts';
export { send } from './sender.ts';
