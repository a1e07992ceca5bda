import { pipeline, Readable } from 'node:stream';
import { escapeFormulas } from './csv-cells.ts';
import { queryOf } from './list-parameters.ts';
import type { DataHandler, DataRoutes } from './routes.ts';

/** Registers the CSV export of lists. */
export function exportPage({ get }: DataRoutes): void {
  const exportCsv: DataHandler = async ({ request, reply, resource, calls }) => {
    const query = queryOf(resource, new URLSearchParams(request.url.split('?')[1] ?? ''));
    const { definition } = resource;
    const isText = definition.fields.map(({ type }) => type.json.type === 'string');
    const csv = await calls.csv(resource, query);
    reply.header('content-type', 'text/csv; charset=utf-8; header=present');
    reply.header('content-disposition', `attachment; filename="${definition.name}.csv"`);
    // A failure closes the connection, so the client notices the incomplete response.
    return reply.send(
      pipeline(
        Readable.from(csv),
        escapeFormulas((column) => isText[column] === true),
        () => {},
      ),
    );
  };
  get('/export', exportCsv, { streams: ['text/csv'] });
}
