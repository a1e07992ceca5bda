import type { Catalogue } from '../../../plugins/admin-ui/shell/index.ts';

/** English texts about outgoing messages. */
export default {
  messageTo: 'Message to {recipient}',
  sent: 'Sent',
  delivered: 'Delivered',
  read: 'Read',
  failed: 'Failed',
} as const satisfies Catalogue;
