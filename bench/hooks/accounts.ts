// For the bench: a hook that runs with writes of accounts, and not with writes of leads.
import { defineModule } from 'crm-engine';

export default defineModule({
  name: 'bench-accounts',
  hooks: { accounts: { beforeWrite: ({ input }) => input } },
});
