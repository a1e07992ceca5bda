// Rejects leads whose email address another open lead has.
import { defineModule, Rejection } from 'crm-engine';

export default defineModule({
  name: 'unique-leads',
  hooks: {
    leads: {
      beforeWrite: async ({ input, previous, id, records }) => {
        const email = input?.email ?? '';
        if (email === '' || email === previous?.email) return;
        // The caller might not see the other lead, so the error does not identify it.
        const same = await records.asSystem('find duplicates').find('leads', {
          where: {
            all: [
              { field: 'email', op: 'eq', value: email },
              { field: 'status', op: 'in', value: ['Open - Not Contacted', 'Working - Contacted'] },
            ],
          },
        });
        if (same.some((lead) => lead.id !== id))
          throw new Rejection('email is already used by another open lead', {
            field: 'email',
            hint: 'Update that lead, or merge the leads.',
          });
      },
    },
  },
});
