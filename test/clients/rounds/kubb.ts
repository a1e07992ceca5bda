import { batchCreateCases } from '../generated/kubb/clients/batchCreateCases.ts';
import { createAccount } from '../generated/kubb/clients/createAccount.ts';
import { createCase } from '../generated/kubb/clients/createCase.ts';
import { getCase } from '../generated/kubb/clients/getCase.ts';
import { listCases } from '../generated/kubb/clients/listCases.ts';
import { check, company } from './check.ts';

/** Runs a round in which Zod validates every response. */
export async function round(url: string, key: string): Promise<void> {
  const config = {
    baseURL: url,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  };
  const account = await createAccount({ name: company }, undefined, undefined, config);
  const made = await createCase({ subject: 'kubb', account_id: account.id }, undefined, undefined, config);
  check(made.account_name === company, 'created');
  const part = await getCase(made.id, { fields: ['subject'], expand: ['account_id'] }, undefined, config);
  check(part.subject === 'kubb' && part.priority === undefined, 'part');
  check(part.expanded?.account_id?.name === company, 'expanded');
  const { data } = await listCases({ fields: ['subject'] }, undefined, config);
  check(
    data.some(({ id, status }) => id === made.id && status === undefined),
    'parts',
  );
  const records = [{ subject: 'one' }, { account_id: 4711 }];
  const { results } = await batchCreateCases({ records, on_error: 'continue' }, undefined, undefined, config);
  const [, failed] = results;
  check(
    failed !== undefined && 'code' in failed && failed.code === 'missing_reference',
    'a failure of a batch',
  );
}
