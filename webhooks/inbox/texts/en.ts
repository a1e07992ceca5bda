import type { Catalogue } from '../../../plugins/admin-ui/shell/index.ts';

/** English texts of the pages for integrations. */
export default {
  integrations: 'Integrations',
  deliveries: 'Deliveries',
  connectChannel: 'Connect a channel',
  state: '{name} ({provider}): {problem}.',
  disabled: 'disabled, so its URL responds with 404',
  unknownChannel: 'no module adds the channel "{channel}", so its URL responds with 404',
  noPublicUrl: 'public_url is not set in config.yaml, so deliveries cannot be verified',
  retired: '{resource} is retired, so deliveries are rejected',
  showIntegration: 'Show integration',
  showIntegrationNamed: 'Show integration {name}',
} as const satisfies Catalogue;
