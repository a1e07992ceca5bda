// For the bench: a hook that runs with every write of leads and reads the stored record.
import { defineModule } from 'crm-engine';

export default defineModule({
  name: 'bench-leads',
  hooks: {
    leads: {
      beforeWrite: ({ input, previous }) => ({ ...input, company: String(previous?.company ?? 'new') }),
    },
  },
});
