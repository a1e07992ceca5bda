// Converts a lead: creates an account, a contact and, if requested, an opportunity, all in one transaction. The conversion can be
// undone. Needs the fields in convert-lead.yaml.
import { defineModule, type HookRecords, Rejection } from 'crm-engine';

const converted = 'Closed - Converted';
const reference = { types: ['reference'] } as const;

/** The fields of a lead that refer to the records created from it, and the resources of these records. */
const created = [
  ['converted_opportunity_id', 'opportunities'],
  ['converted_contact_id', 'contacts'],
  ['converted_account_id', 'accounts'],
] as const;

/** Throws a Rejection if other records refer to the account of a lead. */
async function checkAccount(records: HookRecords, lead: Readonly<Record<string, unknown>>): Promise<void> {
  const { converted_account_id: account } = lead;
  if (typeof account !== 'bigint') return;
  for (const [resource, own] of [
    ['contacts', lead.converted_contact_id],
    ['opportunities', lead.converted_opportunity_id],
    ['cases', undefined],
  ] as const) {
    const where = { field: 'account_id', op: 'in', value: [account] };
    const others = await records.asSystem('check the account').find(resource, { where });
    if (others.some(({ id }) => id !== own))
      throw new Rejection(`The account has other ${resource}`, {
        hint: 'Move them to another account first.',
      });
  }
}

export default defineModule({
  name: 'convert-lead',
  needs: [
    {
      file: 'examples/convert-lead.ts',
      resource: 'leads',
      fields: {
        converted_account_id: reference,
        converted_contact_id: reference,
        converted_opportunity_id: reference,
        status_before_conversion: { types: ['string'] },
      },
    },
  ],
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
          const name = String(input.account ?? lead.company ?? '');
          if (name === '')
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
            ? await records.create('opportunities', {
                account_id: account.id,
                name: String(input.opportunity),
              })
            : undefined;
          // Callers cannot write these fields.
          await records.asSystem('remember the conversion').update('leads', id, {
            status: converted,
            status_before_conversion: lead.status,
            converted_account_id: account.id,
            converted_contact_id: contact.id,
            converted_opportunity_id: opportunity?.id ?? null,
          });
          return { account_id: account.id, contact_id: contact.id, opportunity_id: opportunity?.id ?? null };
        },
      },
      'undo-conversion': {
        description:
          'Deletes the account, the contact and the opportunity that were created from a lead, and opens the lead again.',
        label: 'Undo conversion',
        permission: 'own',
        run: async ({ id, record: lead, records }) => {
          if (id === undefined || lead === undefined)
            throw new Error('undo-conversion is an action of a record');
          if (lead.status !== converted) throw new Rejection('The lead has not been converted');
          await checkAccount(records, lead);
          for (const [field, resource] of created) {
            const recordId = lead[field];
            if (typeof recordId === 'bigint') await records.delete(resource, recordId);
          }
          await records.asSystem('open the lead again').update('leads', id, {
            status: lead.status_before_conversion,
            status_before_conversion: '',
          });
          return undefined;
        },
      },
    },
  },
});
