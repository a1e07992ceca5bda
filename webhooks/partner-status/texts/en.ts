import type { Catalogue } from '../../../plugins/admin-ui/shell/index.ts';

/** English texts of the page about partner endpoints. */
export default {
  partners: 'Partners',
  showPartners: 'Show partners',
  invalidSettings:
    'The last change to config.yaml is invalid, so the previous settings are still in use: {problem}',
  misconfigured: '{name} is misconfigured: {problem}.',
} as const satisfies Catalogue;
