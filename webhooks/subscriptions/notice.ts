import type { FastifyInstance } from 'fastify';
import type { Database } from '../../engine/database/index.ts';
import { administratorProfile } from '../../engine/records/index.ts';
import { tablesOf } from '../../engine/tables/index.ts';
import { listMembers } from '../../plugins/access/members/index.ts';
import type { Mailer } from '../../plugins/operations/mail/index.ts';

/** Tells the administrators of an organization, and the log, that a subscription was switched off. */
export const noticeOf =
  (app: FastifyInstance, database: Database, mailer: Mailer) =>
  async (organization: string, subscription: string, reason: string): Promise<void> => {
    app.log.warn({ organization, subscription, reason }, 'an event subscription was switched off');
    if (!mailer.isOn()) return;
    const members = await listMembers(tablesOf(database), organization);
    const text = `Events of subscription ${subscription} do not arrive: ${reason}. It was switched off. What changes meanwhile is kept in the ledger, and sent once you switch it on again under "Events" in the setup.`;
    for (const { email, profile } of members) {
      if (profile === administratorProfile)
        await mailer.send({ to: email, subject: 'An event subscription was switched off', text });
    }
  };
