import { pipeline, Readable } from 'node:stream';
import { type Form, field } from '../shell/index.ts';
import { escapeFormulas } from './csv-cells.ts';
import { idsParameter, queryOf } from './list-parameters.ts';
import type { DataHandler, DataRoutes } from './routes.ts';
import { selectedIds } from './selected-ids.ts';

/** Registers the CSV export of lists. */
export function exportPage({ get }: DataRoutes): void {
  const exportCsv: DataHandler = async ({ request, reply, resource, calls }) => {
    const form = request.query as Form;
    const ids = selectedIds(form);
    // Selected records are exported in the order of the list.
    const parameters = new URLSearchParams(
      ids.length === 0 ? request.url.split('?')[1] : field(form, 'query'),
    );
    for (const id of ids) parameters.append(idsParameter, id);
    for (const name of ids.length === 0 ? [] : ['cursor', 'page']) parameters.delete(name);
    const query = queryOf(resource, parameters);
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
