// Converts a lead: creates an account, a contact and, if requested, an opportunity, all in one transaction.
import { defineModule, Rejection } from 'crm-engine';

const converted = 'Closed - Converted';

export default defineModule({
  name: 'convert-lead',
  actions: {
    leads: {
      convert: {
        description:
          'Creates an account and a contact from a lead and, if it has a name, an opportunity. The lead is closed.',
        label: 'Convert lead',
        permission: 'own',
        input: {
          type: 'object',
          properties: {
            account: {
              type: 'string',
              title: 'Account',
              description: "The account's name. Default: the company of the lead.",
            },
            opportunity: { type: 'string', title: 'Opportunity', description: "The opportunity's name." },
          },
          additionalProperties: false,
        },
        run: async ({ id, record: lead, input, records }) => {
          if (id === undefined || lead === undefined) throw new Error('convert is an action of a record');
          if (lead.status === converted) throw new Rejection('The lead has already been converted');
          const name = input.account ?? lead.company;
          if (!name)
            throw new Rejection('account is required, because the lead has no company', { field: 'account' });
          const account = await records.create('accounts', { name });
          const contact = await records.create('contacts', {
            account_id: account.id,
            first_name: lead.first_name,
            last_name: lead.last_name,
            email: lead.email,
            phone: lead.phone,
          });
          const opportunity = input.opportunity
            ? await records.create('opportunities', { account_id: account.id, name: input.opportunity })
            : undefined;
          await records.update('leads', id, { status: converted });
          return { account_id: account.id, contact_id: contact.id, opportunity_id: opportunity?.id ?? null };
        },
      },
    },
  },
});
