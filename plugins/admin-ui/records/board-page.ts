import { resourceLabel } from '../../../engine/definition/index.ts';
import { errors, HttpError } from '../../../engine/errors.ts';
import { fieldLabel } from '../../../engine/fields/index.ts';
import {
  type BoardPage,
  type Form,
  factsPerCard,
  field as fieldOf,
  hueAt,
  localeOf,
  messageIn,
  redirectDone,
  type Text,
} from '../shell/index.ts';
import { boardTotals, summedField, sumTexts } from './board-totals.ts';
import { principalOf } from './calls.ts';
import { type BoardField, boardFields } from './list-filters.ts';
import { columnsOf } from './list-page.ts';
import { userIds } from './people.ts';
import { referredValue } from './references.ts';
import type { DataRequest, DataRoutes } from './routes.ts';
import { undoablePosition } from './undo.ts';
import { editedField } from './value-form.ts';
import { displayValue, inText, textOf } from './values.ts';

/** Registers a resource's board, and the form that moves a record to another column. */
export function boardPages({ get, post }: DataRoutes): void {
  get('/board', (context) =>
    showBoard(context, selectedField(context, fieldOf(context.request.query as Form, 'by'))),
  );
  get('/:id/board', async ({ reply, path }) => reply.redirect(`${path}/board`, 303));
  post('/:id/board', async (context) => {
    const { request, reply, resource, calls, titles, path, language, t } = context;
    const { id } = request.params as { id: string };
    const form = (request.body ?? {}) as Form;
    const to = fieldOf(form, 'to');
    const selected = selectedField(context, fieldOf(form, 'by'));
    const { field } = selected;
    if (!calls.allows(resource, 'update')) throw errors.forbidden(resource.name, 'update');
    const { record, tag } = await calls.readWhole(resource, id);
    const current = textOf(record[field.name]);
    const name = titles.of(resource, record);
    const label = inText(fieldLabel(field), language);
    const reject = (status: number, problem: Text) => {
      reply.code(status);
      return showBoard(context, selected, problem);
    };
    if (current !== fieldOf(form, 'before'))
      return reject(412, t('moveConflict', { name, field: label, value: current }));
    if (field.values?.list.includes(to) !== true) return reject(400, t('chooseListed', { field: label }));
    try {
      await calls.patch(resource, id, tag, { [field.name]: field.type.form.parse(to) ?? null });
    } catch (error) {
      if (!(error instanceof HttpError) || ![400, 409, 412, 422].includes(error.status)) throw error;
      return reject(error.status, t('notMoved', { name, reason: messageIn(error, language) }));
    }
    return redirectDone(request, reply, `${path}/board?by=${field.name}`, 'record-saved', {
      name,
      id,
      change: await undoablePosition(context, id),
    });
  });
}

/** Returns the board field with this name or, if the name is empty, the first one. @throws HttpError 404 without one */
function selectedField({ resource, calls }: DataRequest, name: string): BoardField {
  if (!calls.allows(resource, 'list') || !calls.allows(resource, 'read'))
    throw errors.forbidden(resource.name, calls.allows(resource, 'list') ? 'read' : 'list');
  const selected = boardFields(resource).find(({ field }) => name === '' || field.name === name);
  if (selected === undefined) throw errors.notFound();
  return selected;
}

async function showBoard(context: DataRequest, { field, parameter }: BoardField, problem?: Text) {
  const { request, resource, calls, titles, references, path, database, member, language, t } = context;
  const locale = localeOf(request);
  const values = field.values?.list ?? [];
  const facts = columnsOf(resource, titles, []).filter((fact) => fact !== field);
  const summed = summedField(resource);
  const shown = summed === undefined ? facts : [summed, ...facts.filter((fact) => fact !== summed)];
  const [totals, ...lists] = await Promise.all([
    boardTotals(database, resource, principalOf(member), field),
    ...values.map((value) =>
      calls.list(resource, { [parameter]: value, ...references.expansion(calls, shown) }),
    ),
  ]);
  const people = await context.findPeople(lists.flatMap(({ items }) => userIds(resource, items)));
  const canMove = editedField(context, field.name) !== undefined;
  const numbers = new Intl.NumberFormat(locale);
  const outside = [...(totals ?? [])].filter(([value]) => !values.includes(value));
  const outsideCount = outside.reduce((count, [, total]) => count + total.count, 0);
  const sums = sumTexts(totals ?? new Map(), values, summed, locale);
  const columns = values.map((value, index): BoardPage['columns'][number] => {
    const { items = [], total = 0 } = lists[index] ?? {};
    const { count = total } = totals?.get(value) ?? (totals === undefined ? {} : { count: 0 });
    return {
      value,
      hue: hueAt(index),
      count: numbers.format(count),
      sum: sums[index],
      cards: items.map((record) => ({
        id: textOf(record.id),
        title: titles.of(resource, record),
        href: `${path}/${textOf(record.id)}`,
        facts: shown
          .filter(({ name, set }) => textOf(record[name]) !== '' && set === undefined)
          .slice(0, factsPerCard)
          .map((fact) => ({
            label: fieldLabel(fact),
            ...displayValue(fact, record[fact.name], {
              reference: referredValue(references, people, fact, record),
              locale,
            }),
          })),
      })),
      ...(count > items.length && {
        all: {
          label: t('showAll'),
          name: t('showAllWith', { field: fieldLabel(field), value }),
          href: `${path}?${new URLSearchParams({ [parameter]: value })}`,
        },
      }),
    };
  });
  return context.sendPage(
    {
      kind: 'board',
      title: t('recordsBy', {
        records: resourceLabel(resource.definition),
        field: inText(fieldLabel(field), language),
      }),
      above: { label: resourceLabel(resource.definition), href: path },
      ...(outsideCount > 0 && {
        intro: t('outsideBoard', { count: outsideCount, field: inText(fieldLabel(field), language) }),
      }),
      chips: boardFields(resource).map((option) => ({
        label: fieldLabel(option.field),
        href: `${path}/board?by=${option.field.name}`,
        current: option.field === field,
      })),
      columns,
      ...(canMove && { moveBy: field.name }),
    },
    { problem },
  );
}
