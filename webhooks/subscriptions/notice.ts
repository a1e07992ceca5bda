import type { FastifyInstance } from 'fastify';
import { sql } from 'kysely';
import type { Database } from '../../engine/database/index.ts';
import { administratorProfile } from '../../engine/records/index.ts';
import { listRows, tablesOf } from '../../engine/tables/index.ts';
import { memberRows } from '../../plugins/access/members/index.ts';
import type { Mailer } from '../../plugins/operations/mail/index.ts';

/** Creates a function that logs the disabling of a subscription and notifies the organization's administrators. */
export const noticeOf =
  (app: FastifyInstance, database: Database, mailer: Mailer) =>
  async (organization: string, subscription: string, reason: string): Promise<void> => {
    app.log.warn({ organization, subscription, reason }, 'event subscription disabled');
    if (!mailer.isEnabled()) return;
    const where = [sql`p.name = ${administratorProfile}`];
    const administrators = await listRows(tablesOf(database), memberRows, organization, { where });
    const text = `Event subscription ${subscription} was disabled because its events could not be delivered: ${reason}. Changes are kept in the change log. They will be sent when you enable the subscription again under "Events" in the admin UI.`;
    for (const { email } of administrators)
      await mailer.send({ to: email, subject: 'An event subscription was disabled', text });
  };
