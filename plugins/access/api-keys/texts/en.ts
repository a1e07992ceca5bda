import type { Catalogue } from '../../../admin-ui/shell/index.ts';

/** English texts of the pages for API keys. */
export default {
  apiKeys: 'API keys',
  createKey: 'Create an API key',
  keysExpire: {
    one: '{count} API key expires within two weeks.',
    other: '{count} API keys expire within two weeks.',
  },
  showKeys: 'Show keys',
  keyExpires: 'The API key {key} expires on {time}.',
  rotate: 'Rotate',
  rotateKey: 'Rotate {name}',
} as const satisfies Catalogue;
